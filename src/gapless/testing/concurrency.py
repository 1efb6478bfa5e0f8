"""Running things at once: a race between threads, and an act in a forked child."""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence

_CHILD_LIMIT_S = 30


def race(lost: type[BaseException], calls: Sequence[Callable[[], object]]) -> list[int]:
    """Start all calls at once, each in a thread; the numbers of those that did not raise `lost`, in the order they ended.

    Raises the first other error.
    """
    barrier = threading.Barrier(len(calls))
    won: list[int] = []
    failed: list[BaseException] = []

    def run(number: int, call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            call()
        except lost:
            return
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failed.append(error)
        else:
            won.append(number)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return won


def in_child(act: Callable[[], object]) -> int:
    """Run `act` in a forked child for at most 30 s; its wait status: 0 if it ended well, else a signal or an exit code.

    What it raises is printed by the child on stderr.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads: the point here
        child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    signal.alarm(_CHILD_LIMIT_S)
    try:
        act()
    except BaseException:  # noqa: BLE001 - a child may end by _exit only
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
