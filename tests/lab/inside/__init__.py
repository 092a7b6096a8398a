"""What runs inside a node: copied there, run by the node's Python beside podrail's sources."""
