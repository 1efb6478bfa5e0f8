"""The conditional replace of a disk among processes, and through a store that loses answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from gapless.errors import StoreError
from gapless.store.local.store import LocalStore
from gapless.testing.store.stores import DictStore, Faults, SimStore

COUNT_UP = """
import sys
from gapless.errors import ObjectChanged
from gapless.store.local.store import LocalStore
store, left = LocalStore(sys.argv[1]), 25
while left:
    tagged = store.get_tagged("a/count")
    try:
        store.put_if_match("a/count", str(int(tagged.data) + 1).encode(), tagged.etag)
    except ObjectChanged:
        continue
    left -= 1
"""


def test_processes_that_count_up_together_lose_no_count(tmp_path: Path) -> None:
    LocalStore(tmp_path).put("a/count", b"0")
    others = [subprocess.Popen([sys.executable, "-c", COUNT_UP, tmp_path]) for _ in range(3)]
    assert [other.wait() for other in others] == [0, 0, 0]
    assert LocalStore(tmp_path).get("a/count") == b"75"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["count"]


@pytest.mark.parametrize("seed", range(20))
def test_a_holder_that_reads_back_after_each_failure_knows_whether_it_holds(seed: int) -> None:
    """Whatever answers are lost, late or sent twice: who finds its own name in the lease is the only one that does."""
    inner = DictStore()
    inner.put("lease", b"nobody")
    first = inner.get_tagged("lease").etag
    holders = []
    for name in ("a", "b", "c"):
        store = SimStore(inner, random=Random(seed * 10 + ord(name)), faults=Faults.even(0.15), name=name)
        try:
            store.put_if_match("lease", name.encode(), first)
        except StoreError:
            store.timeline.pause(3600)
            if inner.get("lease") != name.encode():
                continue
        holders.append(name)
    assert holders == [name for name in ("a", "b", "c") if inner.get("lease") == name.encode()]
    assert len(holders) <= 1
