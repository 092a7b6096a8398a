"""MemoryHost: a machine held as data. RecordedHost and TwinHost are made of it."""

from __future__ import annotations

import errno
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from podrail.host.seam import Event, Ran, Watch

Content = str | bytes | int
"""The content of a file, or the errno that reading it gives."""

Program = Ran | Callable[..., Ran]
"""A recorded run, or a model of the program: called with argv and, where it has a parameter of
that name, with `stdin`."""

_MAX_LINKS = 40  # the kernel's MAXSYMLINKS


def _fail(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


def _not_installed(argv: Sequence[str]) -> Ran:
    raise _fail(errno.ENOENT, argv[0])


def _ran(program: Program, argv: Sequence[str], stdin: str) -> Ran:
    if isinstance(program, Ran):
        return program
    if stdin and "stdin" in inspect.signature(program).parameters:
        return program(argv, stdin=stdin)
    return program(argv)


class QueuedWatch:
    """What was told to a MemoryHost since; it has no time, so waiting brings nothing more."""

    timeless = True

    def __init__(self, watches: list[QueuedWatch]) -> None:
        self._watches = watches
        self._queue: list[Event] = []
        self._bell: int | None = None
        watches.append(self)

    def tell(self, event: Event) -> None:
        """Queue an event."""
        self._queue.append(event)
        if self._bell is not None:
            os.eventfd_write(self._bell, 1)

    def wait(self, timeout: float | None) -> tuple[Event, ...]:
        found = tuple(self._queue)
        self._queue.clear()
        if self._bell is not None and found:
            os.eventfd_read(self._bell)
        return found

    def fileno(self) -> int:
        if self._bell is None:
            self._bell = os.eventfd(len(self._queue), os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        return self._bell

    def close(self) -> None:
        if self in self._watches:
            self._watches.remove(self)
        if self._bell is not None:
            os.close(self._bell)
            self._bell = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryHost:
    """Files, links and programs in dictionaries, walked as the kernel walks paths."""

    def __init__(
        self,
        label: str,
        files: Mapping[str, Content] | None = None,
        links: Mapping[str, str] | None = None,
        programs: Mapping[tuple[str, ...], Program] | None = None,
    ) -> None:
        self._label = label
        self.labels: dict[str, str] = {}
        self._files: dict[str, Content] = {}
        self._links: dict[str, str] = {}
        self._children: dict[str, set[str]] = {"/": set()}
        self._programs: dict[tuple[str, ...], Program] = dict(programs or {})
        self._unmade: dict[str, Callable[[], None]] = {}
        self._walked: dict[str, str] = {}
        self._alike: dict[str, Content] = {}
        self._watches: list[QueuedWatch] = []
        for path, content in (files or {}).items():
            self.put(path, content)
        for path, target in (links or {}).items():
            self.put_link(path, target)

    @property
    def label(self) -> str:
        return self._label

    # --- building -----------------------------------------------------------------------------

    def put_dir(self, path: str) -> None:
        """Make a directory and those above it."""
        self._children.setdefault(path, set())
        self._hang(path)

    def put_later(self, path: str, make: Callable[[], None]) -> None:
        """Make a directory whose content `make` puts in when somebody first looks."""
        self.put_dir(path)
        self._unmade[path] = make

    def _hang(self, path: str) -> None:
        """Enter `path` in its parent, all the way up."""
        while path not in ("", "/"):
            above, _, name = path.rpartition("/")
            siblings = self._children.setdefault(above or "/", set())
            if name in siblings:
                return
            siblings.add(name)
            path = above

    def put(self, path: str, content: Content) -> None:
        """Make or replace a file; an int is the errno that reading it raises."""
        if self._links.pop(path, None) is not None:
            self._walked.clear()
        self._files[path] = content
        self._hang(path)

    def put_all(self, directory: str, contents: Mapping[str, Content]) -> None:
        """Make or replace many files of one directory, by name; none of them is a link."""
        self.put_dir(directory)
        self._children[directory].update(contents)
        self._files.update({f"{directory}/{name}": text for name, text in contents.items()})

    def put_alike(self, directory: str, names: Iterable[str], content: Content) -> None:
        """Make many files of one content; `put` may give some of them another."""
        self.put_dir(directory)
        self._children[directory].update(names)
        self._alike[directory] = content

    def put_link(self, path: str, target: str) -> None:
        """Make or replace a symbolic link."""
        self._walked.clear()
        self._files.pop(path, None)
        self._links[path] = target
        self._hang(path)

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with all below it."""
        self._walked.clear()
        for name in tuple(self._children.get(path, ())):
            self.remove(f"{path.rstrip('/')}/{name}")
        self._children.pop(path, None)
        self._files.pop(path, None)
        self._links.pop(path, None)
        self._unmade.pop(path, None)
        self._alike.pop(path, None)
        above, _, name = path.rpartition("/")
        self._children.get(above or "/", set()).discard(name)

    def move(self, old: str, new: str) -> None:
        """Move a file or a link."""
        if old in self._links:
            self.put_link(new, self._links[old])
        else:
            self.put(new, self._files[old])
        self.remove(old)

    def put_program(self, argv: Sequence[str], program: Program) -> None:
        """What `run` answers to an argv, or to every argv that starts with it."""
        self._programs[tuple(argv)] = program

    def remove_program(self, argv: Sequence[str]) -> None:
        """Uninstall a program, or only the form of it that starts so."""
        key = tuple(argv)
        for known in [k for k in self._programs if k[: len(key)] == key]:
            del self._programs[known]
        if any(key[: len(known)] == known for known in self._programs):
            self._programs[key] = _not_installed

    def emit(self, event: Event) -> None:
        """Tell everybody who watches."""
        for watch in self._watches:
            watch.tell(event)

    # --- the seam -----------------------------------------------------------------------------

    def read(self, path: str) -> str:
        content = self._content(path)
        return content.decode("utf-8", "replace") if isinstance(content, bytes) else content

    def read_bytes(self, path: str) -> bytes:
        content = self._content(path)
        return content if isinstance(content, bytes) else content.encode()

    def write(self, path: str, text: str) -> None:
        real = self.resolve(path)
        if real in self._children:
            raise _fail(errno.EISDIR, path)
        self._files[real] = text

    def place(self, path: str, text: str, *, mode: int = 0o644) -> None:
        real = self._made(path)
        if real in self._children:
            raise _fail(errno.EISDIR, path)
        if self._is_file(real.rpartition("/")[0]):
            raise _fail(errno.ENOTDIR, path)
        self.put(real, text)

    def unlink(self, path: str) -> None:
        above, _, name = path.rstrip("/").rpartition("/")
        real = f"{self.resolve(above or '/').rstrip('/')}/{name}"
        if real in self._children:
            raise _fail(errno.EISDIR, path)
        if real not in self._links and not self._is_file(real):
            raise _fail(errno.ENOENT, path)
        self.remove(real)

    def entries(self, path: str) -> tuple[str, ...]:
        real = self.resolve(path)
        if real not in self._children:
            raise _fail(errno.ENOTDIR, path)
        return tuple(sorted(self._children[real]))

    def readlink(self, path: str) -> str:
        above, _, name = path.rpartition("/")
        real = self.resolve(above or "/").rstrip("/")
        place = f"{real}/{name}"
        if place in self._links:
            return self._links[place]
        known = self._is_here(place, real, name)
        raise _fail(errno.EINVAL if known else errno.ENOENT, path)

    def resolve(self, path: str) -> str:
        if path in self._files or (path in self._children and path not in self._unmade):
            return path
        above, _, name = path.rpartition("/")
        if not above or name in ("", ".", ".."):
            return self._walk(path, path)
        place = self._walked.get(above)
        if place is None:
            place = self._walked[above] = self._walk(above, path)
        here = f"{place}/{name}"
        if here in self._files or (place in self._alike and name in self._children[place]):
            return here
        return self._walk(here, path)

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, stdin: str = "") -> Ran:
        key = tuple(argv)
        for length in range(len(key), 0, -1):
            program = self._programs.get(key[:length])
            if isinstance(program, Ran) and length < len(key):
                continue
            if program is not None:
                return _ran(program, argv, stdin)
        raise _fail(errno.ENOENT, key[0])

    def watch(self) -> Watch:
        return QueuedWatch(self._watches)

    # --- paths --------------------------------------------------------------------------------

    def _content(self, path: str) -> str | bytes:
        real = self.resolve(path)
        if real in self._children and real not in self._files:
            raise _fail(errno.EISDIR, path)
        content = self._files.get(real)
        if content is None:
            content = self._alike[real.rpartition("/")[0]]
        if isinstance(content, int):
            raise _fail(content, path)
        return content

    def _is_file(self, real: str) -> bool:
        above, _, name = real.rpartition("/")
        return real not in self._children and self._is_here(real, above, name)

    def _made(self, path: str) -> str:
        """Where a file of this path is or would be, every link followed."""
        try:
            return self.resolve(path)
        except FileNotFoundError:
            above, _, name = path.rstrip("/").rpartition("/")
        place = self._made(above).rstrip("/") if above else ""
        target = self._links.get(f"{place}/{name}")
        if target is None:
            return f"{place}/{name}"
        return self._made(target if target.startswith("/") else f"{place}/{target}")

    def _is_here(self, here: str, above: str, name: str) -> bool:
        if here in self._children or here in self._files:
            return True
        return above in self._alike and name in self._children[above]

    def _walk(self, path: str, asked: str) -> str:
        """Follow every link of the path, as path_resolution(7) says."""
        pending = [part for part in reversed(path.split("/")) if part]
        place, followed = "", 0
        while pending:
            part = pending.pop()
            if part == ".":
                continue
            if part == "..":
                place = place.rpartition("/")[0]
                continue
            here = f"{place}/{part}"
            if here in self._unmade:
                self._unmade.pop(here)()
            if here not in self._links:
                if not self._is_here(here, place, part):
                    raise _fail(errno.ENOENT, asked)
                place = here
                continue
            followed += 1
            if followed > _MAX_LINKS:
                raise _fail(errno.ELOOP, asked)
            target = self._links[here]
            if target.startswith("/"):
                place = ""
            pending.extend(part for part in reversed(target.split("/")) if part)
        return place or "/"
