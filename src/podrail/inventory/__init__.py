"""Host → Inventory."""
