"""A process that gives addresses until it is killed: `storm.py FILE THREADS [POINT]`.

Every lease is written to stdout after it was given. With POINT, the process kills itself the
moment it has passed so many of the points at which it may die.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import count

from podrail.attach.ipam.leases import LocalAddresses
from tests.attach.ipam.made import ask, owner, pool

POOL = pool("10.0.0.0/20", gateway="10.0.0.1")


def main(path: str, threads: int, point: int) -> None:
    passed = count(1)

    def at_point(_: str) -> None:
        if next(passed) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    addresses = LocalAddresses(path, at_point=at_point)
    crowd = [threading.Thread(target=_work, args=(addresses, n)) for n in range(threads)]
    for thread in crowd:
        thread.start()


def _work(addresses: LocalAddresses, worker: int) -> None:
    for number in count():
        name = f"{os.getpid()}-{worker}-{number}"
        lease = addresses.allocate(ask(name, POOL))
        os.write(1, f"+ {name} {lease.address}\n".encode())
        if number % 3 == 0:
            os.write(1, f"? {name} {lease.address}\n".encode())
            addresses.release(owner(name))
            os.write(1, f"- {name} {lease.address}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
