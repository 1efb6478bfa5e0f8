"""Puts that go on in the background, and what becomes of them when the program ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gapless.errors import StoreUnavailable
from gapless.store.background_writes import BackgroundWrites

_ENDING = """
import threading
from gapless.store.background_writes import BackgroundWrites

stored = {}
later = BackgroundWrites(stored.__setitem__)

def work():
    threading.main_thread().join()
    later.put_deferred("data/1", b"x")
    later.settle(["data/1"])
    later.put_hint("CURRENT", b"1")
    later.await_all()
    print(sorted(stored.items()))

threading.Thread(target=work).start()
"""


def test_a_thread_that_outlives_the_main_one_still_puts() -> None:
    found = subprocess.run([sys.executable, "-c", _ENDING], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[('CURRENT', b'1'), ('data/1', b'x')]"
    assert found.stderr == ""


def test_of_several_hints_the_newest_is_put_last() -> None:
    stored: list[bytes | memoryview] = []
    later = BackgroundWrites(lambda _path, data: stored.append(data))
    for number in range(50):
        later.put_hint("CURRENT", b"%d" % number)
    later.await_all()
    assert stored[-1] == b"49"


def test_a_put_ahead_that_failed_fails_each_time_it_is_asked_about() -> None:
    def refuse(path: str, _data: bytes | memoryview) -> None:
        raise StoreUnavailable("no answer", path=path)

    later = BackgroundWrites(refuse)
    later.put_deferred("data/1", b"x")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            later.settle(["data/1"])
    later.forget(["data/1"])
    later.settle(["data/1"])
