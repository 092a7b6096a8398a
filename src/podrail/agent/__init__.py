"""The node service: notices when a machine is no longer as wanted, says so, and mends it."""
