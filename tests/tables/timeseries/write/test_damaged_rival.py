"""An append that lost the race to a commit whose coverage is damaged: it can't tell whether it overlaps, and says so."""

from __future__ import annotations

import uuid

import pytest

import gapless as gl
from gapless.coverage.bitmap import CoverageMap, range_bitmap
from gapless.coverage.codec import encode
from gapless.errors import CorruptTable
from gapless.store.open import open_store
from support.faulty_store import is_commit, once, open_faulty

ELSEWHERE = encode(CoverageMap({(): range_bitmap(2**63 + 900, 2**63 + 901)}), ())


@pytest.mark.parametrize("damage", [ELSEWHERE, b"", None])
def test_damaged_coverage_of_a_rival_is_never_read_as_another(monkeypatch: pytest.MonkeyPatch, damage: bytes | None) -> None:
    monkeypatch.setattr("gapless.files.write.staged_write.INLINE_COVERAGE_BYTES", 0)
    url = f"memory://{uuid.uuid4()}"
    gl.create(url, index="n", index_type="int64", bucket=1).append([{"n": 0}])
    plain = open_store(url)
    before = {info.path for info in plain.list("_coverage")}
    table, store = open_faulty(url)

    def lose() -> None:
        gl.open(url).append([{"n": 7}])
        (sidecar,) = {info.path for info in plain.list("_coverage")} - before - set(store.puts)
        plain.delete(sidecar)
        if damage is not None:
            plain.put(sidecar, damage)

    store.before_put = once(lose, is_commit)
    with pytest.raises(CorruptTable):
        table.append([{"n": 7}])
    assert gl.open(url).version == 3
    assert [finding.mend for finding in gl.verify(url).problems] == ["repair"]
    assert gl.repair(url, apply=True).ok
    with pytest.raises(gl.CoverageOverlap):
        table.append([{"n": 7}])
