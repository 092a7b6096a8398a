"""One interpreter for many requests: an emulated CPU takes seconds to import podrail, none to fork.

A request is a line of JSON on standard input, an answer a line on standard output. `podrail` runs
the command line as the program would, `call` runs a function of this package; both in a child of
their own. `start` and `wait` do the same with something else in between.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

OUTPUT = Path("/run/podrail-tests/output")
PRELOADED = (
    "podrail.cli.apply", "podrail.cli.reset", "podrail.cli.status", "podrail.cli.discover",
    "podrail.cli.agent", "podrail.host.events", "sqlite3", "multiprocessing.popen_fork",
    "multiprocessing.connection",
)  # fmt: skip

Request = dict[str, Any]
Answer = dict[str, Any]


def serve() -> None:
    """Answer until the other side hangs up."""
    _warm()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    began: dict[int, float] = {}
    answer({"ready": os.getpid()})
    for line in sys.stdin:
        answer(_answered(json.loads(line), began))


def _warm() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    from podrail.model.bundle import read
    from podrail.planning.lint import lint

    from .policies import policy

    list(lint(read([("warm.yaml", policy("warm", 1, "ens2"))])))  # its rules are loaded lazily


def answer(what: Answer) -> None:
    sys.__stdout__.write(json.dumps(what) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def _answered(request: Request, began: dict[int, float]) -> Answer:
    if "wait" in request:
        return _ended(int(request["wait"]), began)
    pid = _forked(request)
    began[pid] = time.monotonic()
    return {"pid": pid} if request.get("start") else _ended(pid, began)


def _forked(request: Request) -> int:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        _child(request)
    return pid


def _child(request: Request) -> NoReturn:
    rc = 70
    try:
        with _output():
            rc = _status(lambda: _act(request))
    finally:
        os._exit(rc)


def _act(request: Request) -> None:
    if "uid" in request:
        os.setgroups([])
        os.setgid(int(request["uid"]))
        os.setuid(int(request["uid"]))
    if "podrail" in request:
        from podrail.cli import main

        sys.argv = ["podrail", *request["podrail"]]
        main()
        return
    module, _, function = request["call"].rpartition(".")
    value = getattr(importlib.import_module(f".{module}", __package__), function)(
        *request["arguments"]
    )
    print(f"\n{json.dumps(value)}")


@contextlib.contextmanager
def _output() -> Iterator[None]:
    """Each child its own files; nothing of it may reach the line of answers."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for fd, kind in ((1, "out"), (2, "err")):
        file = os.open(_file(os.getpid(), kind), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, fd)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _status(act: Callable[[], None]) -> int:
    """The exit status Python itself would give."""
    try:
        act()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - it is the end of this process
        traceback.print_exc()
        return 1
    return 0


def _file(pid: int, kind: str) -> Path:
    return OUTPUT / f"{pid}.{kind}"


def _ended(pid: int, began: dict[int, float]) -> Answer:
    _, status = os.waitpid(pid, 0)
    took = time.monotonic() - began.pop(pid)
    texts = {kind: _taken(_file(pid, kind)) for kind in ("out", "err")}
    return {"rc": os.waitstatus_to_exitcode(status), "seconds": took, **texts}


def _taken(file: Path) -> str:
    try:
        text = file.read_text("utf-8", "replace")
    except FileNotFoundError:  # killed before it could say anything
        return ""
    file.unlink()
    return text
