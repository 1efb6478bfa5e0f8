"""Turns: one caller leads for all who wait, and one who is interrupted leaves no one waiting."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from gapless.runtime import concurrency as module
from gapless.runtime.concurrency import Turns

SOON_S = 60.0


def wait_until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.001)


def test_who_waits_goes_together_in_the_next_turn() -> None:
    slow = threading.Event()
    turns_taken: list[list[int]] = []

    def work(items: Sequence[int]) -> list[int]:
        turns_taken.append(sorted(items))
        if items[0] == 0:
            assert slow.wait(SOON_S)
        return [10 * item for item in items]

    turns = Turns(work)
    results: list[int] = []
    threads = [threading.Thread(target=lambda n=n: results.append(turns.submit(n))) for n in range(4)]
    threads[0].start()
    wait_until(lambda: bool(turns_taken))
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: len(turns._waiting) == 3)
    slow.set()
    for thread in threads:
        thread.join(SOON_S)
    assert (sorted(results), turns_taken) == ([0, 10, 20, 30], [[0], [1, 2, 3]])


def test_those_whom_a_turn_woke_go_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look around, whoever comes back first would take the next turn alone."""
    monkeypatch.setattr(module, "_GLANCE_S", 0.05)
    sizes: list[int] = []

    def work(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        time.sleep(0.3)
        return [item + 1 for item in items]

    turns = Turns(work)

    def come_back(item: int) -> None:
        for _ in range(3):
            item = turns.submit(item)

    threads = [threading.Thread(target=come_back, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
    assert sum(sizes) == 12
    assert max(sizes[1:]) == 4, sizes


def test_who_has_no_company_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: pytest.fail("it waited"))
    turns: Turns[int, int] = Turns(list)
    assert [turns.submit(item) for item in range(1, 50)] == list(range(1, 50))


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_caller_does_not_block_those_behind() -> None:
    slow = threading.Event()
    done: list[str] = []

    def work(items: Sequence[str]) -> list[str]:
        done.extend(items)
        if items[0] == "slow":
            assert slow.wait(SOON_S)
        return list(items)

    turns = Turns(work)
    leader = threading.Thread(target=turns.submit, args=("slow",))
    behind = threading.Thread(target=turns.submit, args=("behind",), daemon=True)

    def interrupt_main() -> None:
        wait_until(lambda: len(turns._waiting) == 1)
        behind.start()
        wait_until(lambda: len(turns._waiting) == 2)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    leader.start()
    wait_until(lambda: bool(done))
    threading.Thread(target=interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        turns.submit("interrupted")
    slow.set()
    leader.join(SOON_S)
    behind.join(SOON_S)
    assert not behind.is_alive()
    assert done == ["slow", "behind"], "what was interrupted before its turn is not done"
    assert turns.submit("next") == "next"
