"""Recording calls into segments, cutting and forcing them, guards for what only the device knows, capturing graphs."""
