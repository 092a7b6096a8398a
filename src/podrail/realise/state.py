"""Where podrail keeps its journal on a machine, and who may work there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from podrail.model.errors import Refused
from podrail.realise.journal import Journal
from podrail.realise.locks import attempt, holder, locked

DEFAULT = "/var/lib/podrail"
_WORK_SECONDS = 150.0
"""Upstream's patience for one write of sriov_numvfs, and some more."""


class State:
    """The state directory: root's alone."""

    def __init__(
        self, place: str = DEFAULT, *, at_point: Callable[[str], None] | None = None
    ) -> None:
        self.place = Path(place)
        try:
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
            open_to_all = self.place.stat().st_mode & 0o022
        except OSError as no:
            raise Refused(
                f"{place} cannot be made ({no.strerror}): run as root, or name another place with "
                "--state"
            ) from no
        if open_to_all:
            raise Refused(f"others may write in {place}: a journal there could be anybody's")
        with _private():
            self.journal = Journal(str(self.place / "journal.db"), at_point=at_point)

    def close(self) -> None:
        self.journal.close()

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def working(self, waiting: Callable[[int | None], None] | None = None) -> Iterator[None]:
        """One podrail at a time changes this machine. `waiting` is told once of the process that
        is at work now."""
        with locked(self.place / "work.lock", _WORK_SECONDS, "podrail", waiting):
            yield

    @contextlib.contextmanager
    def agent(self) -> Iterator[None]:
        """One agent on a machine."""
        with locked(self.place / "agent.lock", 0.0, "agent"):
            yield

    def agent_pid(self) -> int | None:
        """The agent that runs now."""
        try:
            fd = os.open(self.place / "agent.lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return None if attempt(fd) else holder(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def _private() -> Iterator[None]:
    """SQLite makes its files with the process's umask."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
