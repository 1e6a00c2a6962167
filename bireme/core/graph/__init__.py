"""What calls are recorded as: Sig, Value, Node and Graph, operators bound to their attributes, segments; and what can
run them.
"""
