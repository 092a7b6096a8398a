"""Host → Inventory: `discover` reads every fact of a machine and changes none."""

from podrail.inventory.collect import discover

__all__ = ["discover"]
