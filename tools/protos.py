"""`python -m tools.protos`: Python from the .proto files, run by hand when one of them changes.

The messages alone are generated; `podrail.attach.deviceplugin.api` names the methods itself, so
that no generated code asks for one exact release of grpcio.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = Path("podrail/attach/deviceplugin/api")


def main() -> int:
    """Generate beside each .proto its messages and their types."""
    from grpc_tools import protoc  # type: ignore[import-untyped]

    source = ROOT / "src"
    found = sorted(str(path) for path in (source / PLACE).glob("*.proto"))
    argv = ["protoc", f"-I{source}", f"--python_out={source}", f"--pyi_out={source}", *found]
    return int(protoc.main(argv))


if __name__ == "__main__":
    sys.exit(main())
