"""gRPC over Unix sockets: the one module that imports it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeVar, cast

import grpc  # type: ignore[import-untyped]
from google.protobuf.message import Message

from podrail.attach.deviceplugin.api import Method

WORKERS = 8
"""Threads of one endpoint: each ListAndWatch keeps one; the kubelet has one such call open."""

_CHANNEL = (
    # a path is no valid :authority (RFC 3986 §3.2); the kubelet's own client says the same
    ("grpc.default_authority", "localhost"),
    # by default channels of one process share connections by path, also to a socket that is gone
    ("grpc.use_local_subchannel_pool", 1),
)

Q = TypeVar("Q", bound=Message)
A = TypeVar("A")


class Refusal(Exception):
    """An answer that is an error: `NOT_FOUND`, `INVALID_ARGUMENT`, `FAILED_PRECONDITION`."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


class Unanswered(Exception):
    """A call that brought no answer, or an error for one."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code, self.why = code, why


class Context(Protocol):
    """What a handler may know of its call."""

    def is_active(self) -> bool: ...

    def add_callback(self, callback: Callable[[], None]) -> bool: ...


@dataclass(frozen=True, slots=True)
class Handler:
    """A method with what answers it."""

    method: Method[Any, Any]
    answer: Callable[[Any, Context], Any]


def handler(method: Method[Q, A], answer: Callable[[Q, Context], A]) -> Handler:
    """A handler whose types fit its method."""
    return Handler(method, answer)


class Server:
    """A gRPC server on one socket that only its owner may open.

    The socket is bound under a hidden name and then renamed. So it is never to be seen before it
    answers and may be opened by root alone, a stale one in its place is replaced in one step, and
    gRPC, which unlinks what it bound when it ends, cannot unlink a successor's socket.
    """

    def __init__(self, path: str, handlers: Sequence[Handler], workers: int = WORKERS) -> None:
        self.path = path
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=os.path.basename(path))
        self._identity: tuple[int, int, int] | None = None
        self._server = grpc.server(self._pool, handlers=_generic(handlers))
        hidden = f"{os.path.dirname(path)}/.{secrets.token_hex(4)}"
        try:
            self._server.add_insecure_port(f"unix:{hidden}")
            os.chmod(hidden, 0o600)
            self._server.start()
            self._identity = identity(hidden)
            os.rename(hidden, path)
        except (OSError, RuntimeError) as no:
            self._end()
            with suppress(OSError):
                os.unlink(hidden)
            raise OSError(f"cannot serve at {path}: {no}") from no

    @property
    def there(self) -> bool:
        """Whether the socket at its path is still this server's."""
        return self._identity is not None and identity(self.path) == self._identity

    @property
    def superseded(self) -> bool:
        """Whether somebody else's socket has taken its place."""
        return identity(self.path) is not None and not self.there

    def hide(self) -> None:
        """Take the socket away if it is still ours: nobody new comes, calls go on."""
        if self.there:
            with suppress(FileNotFoundError):
                os.unlink(self.path)

    def stop(self) -> None:
        """End every call."""
        self.hide()
        self._end()

    def _end(self) -> None:
        self._server.stop(0).wait()
        self._pool.shutdown(wait=True)


def identity(path: str) -> tuple[int, int, int] | None:
    """Which socket it is: one made anew is another, also where it got the number of the last."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _generic(handlers: Sequence[Handler]) -> tuple[Any, ...]:
    services = dict.fromkeys(one.method.service for one in handlers)
    return tuple(
        grpc.method_handlers_generic_handler(
            service,
            {one.method.name: _made(one) for one in handlers if one.method.service == service},
        )
        for service in services
    )


def _made(one: Handler) -> Any:
    method = one.method
    make = (
        grpc.unary_stream_rpc_method_handler
        if method.streams
        else grpc.unary_unary_rpc_method_handler
    )
    return make(
        one.answer if method.streams else _refusing(one.answer),
        request_deserializer=method.request.FromString,
        response_serializer=method.reply.SerializeToString,
    )


def _refusing(answer: Callable[[Any, Context], Any]) -> Callable[[Any, Any], Any]:
    def answered(request: Any, context: Any) -> Any:
        try:
            return answer(request, context)
        except Refusal as no:
            _abort(context, no)

    return answered


def _abort(context: Any, no: Refusal) -> NoReturn:
    context.abort(getattr(grpc.StatusCode, no.code), no.why)
    raise AssertionError("abort raises")


@contextmanager
def channel(path: str) -> Iterator[Channel]:
    """A connection to whoever serves a socket."""
    with grpc.insecure_channel(f"unix:{path}", options=_CHANNEL) as opened:
        yield Channel(opened)


class Channel:
    """A connection; every call on it is bounded in time, except a stream."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def call(self, method: Method[Q, A], request: Q, timeout: float = 10.0) -> A:
        make = self._opened.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )
        try:
            return cast("A", make(request, timeout=timeout))
        except grpc.RpcError as no:
            raise _unanswered(no) from no

    def stream(self, method: Method[Q, Iterator[A]], request: Q) -> Stream[A]:
        make = self._opened.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )
        return Stream(make(request))


class Stream(Iterator[A]):
    """The answers of a streaming call, as they come."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __next__(self) -> A:
        try:
            return cast("A", next(self._call))
        except grpc.RpcError as no:
            raise _unanswered(no) from no

    def cancel(self) -> None:
        self._call.cancel()


def _unanswered(no: Any) -> Unanswered:
    return Unanswered(no.code().name, no.details() or "no reason given")
