"""What things are: manifests, inventory, plan, finding. No I/O."""
