"""What fleet is made of: strategies, role makers, topologies."""
