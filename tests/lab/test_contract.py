"""The contract of the host seam, the very tests the twin is held to, against a node of the lab."""

from __future__ import annotations

from tests.twin import test_contract_drivers, test_contract_ip, test_contract_vfs
from tests.twin.conftest import pf, vfs

__all__ = ["pf", "vfs"]

for module in (test_contract_vfs, test_contract_drivers, test_contract_ip):
    globals().update({name: it for name, it in vars(module).items() if name.startswith("test_")})
