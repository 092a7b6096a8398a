"""LabHost: a node of the lab behind the host seam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podrail.host.seam import Ran, Watch
from podrail.lab.client import Address, Connection, Lost
from podrail.model.errors import Refused


class LabHost:
    """A lab node; every read, write and program happens inside it."""

    def __init__(self, node: str, address: Address) -> None:
        self._node = node
        self._address = address
        self._connection: Connection | None = None

    @property
    def label(self) -> str:
        return f"lab:{self._node}"

    @property
    def labels(self) -> Mapping[str, str]:
        return {}

    @property
    def address(self) -> Address:
        """Where its agent answers."""
        return self._address

    @property
    def connection(self) -> Connection:
        """Opened at first use, and kept: a connection costs more than a question."""
        if self._connection is None:
            try:
                self._connection = Connection(self._address)
            except OSError as failure:
                raise Lost(
                    f"{self.label} does not answer ({failure}); podrail lab list shows its state"
                ) from failure
        return self._connection

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> LabHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str) -> bytes:
        return self.connection.read(path)

    def write(self, path: str, text: str) -> None:
        self.connection.ask("write", path=path, text=text)

    def place(self, path: str, text: str, *, mode: int = 0o644) -> None:
        self.connection.put(path, text.encode(), mode)

    def unlink(self, path: str) -> None:
        self.connection.ask("unlink", path=path)

    def entries(self, path: str) -> tuple[str, ...]:
        return tuple(self.connection.ask("entries", path=path))

    def readlink(self, path: str) -> str:
        return str(self.connection.ask("readlink", path=path))

    def resolve(self, path: str) -> str:
        return str(self.connection.ask("resolve", path=path))

    def run(self, argv: Sequence[str], *, timeout: float = 60.0, stdin: str = "") -> Ran:
        return self.connection.run(argv, timeout=timeout, stdin=stdin.encode())

    def watch(self) -> Watch:
        raise Refused(
            f"{self.label} tells its events inside the node only; run podrail there: "
            f"podrail lab run {self._node} -- podrail …"
        )
