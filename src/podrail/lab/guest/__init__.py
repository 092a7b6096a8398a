"""What is copied into a node of the lab."""
