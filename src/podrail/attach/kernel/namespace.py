"""Network namespaces: opened by path, entered by one thread for a moment."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

_CLONE_NEWNET = 0x40000000  # include/uapi/linux/sched.h
_NSFS_MAGIC = 0x6E736673  # include/uapi/linux/magic.h
_NS_GET_NSTYPE = 0xB703  # include/uapi/linux/nsfs.h

_libc = ctypes.CDLL(None, use_errno=True)


class NotANamespace(OSError):
    """The path leads to something else."""


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """A network namespace as an open file; anything else is refused before it is entered."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not is_network_namespace(fd):
            raise NotANamespace(0, "is no network namespace", path)
        yield fd
    finally:
        os.close(fd)


def is_network_namespace(fd: int) -> bool:
    """ioctl_ns(2)."""
    return int(_libc.ioctl(fd, _NS_GET_NSTYPE)) == _CLONE_NEWNET


def same(one: int, other: int) -> bool:
    """Whether two open files are the same namespace: ioctl_ns(2), namespaces(7)."""
    a, b = os.fstat(one), os.fstat(other)
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


@contextlib.contextmanager
def entered(namespace: int | None) -> Iterator[None]:
    """This thread alone is in the namespace meanwhile (setns(2)); None is where it is."""
    if namespace is None:
        yield
        return
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(namespace)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "setns")
