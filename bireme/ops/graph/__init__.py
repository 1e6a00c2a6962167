"""Graph learning: messages along edges, segments, neighbour sampling."""
