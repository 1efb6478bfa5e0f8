"""What refusals show: long values cut, with their length said; times of a naive index without a zone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CoverageOverlap, DuplicateKey, FillStopped, InvalidValue, shorten, shorten_text

AT = datetime(2026, 1, 5)
LONG = "é" * 10_000


@pytest.fixture(params=[None, "UTC"])
def zone(request: pytest.FixtureRequest) -> str | None:
    return request.param  # type: ignore[no-any-return] # one of the two above


def rows(zone: str | None, *identities: str) -> pa.Table:
    return pa.table({"ts": pa.array([AT] * len(identities), pa.timestamp("us", zone)), "k": list(identities)})


def test_an_overlap_shows_the_beginning_of_a_long_identity_and_a_time_as_the_index_has_it(
    tmp_path: Path, zone: str | None
) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["k"])
    table.append(rows(zone, LONG))
    with pytest.raises(CoverageOverlap, match=r"10,000 characters") as caught:
        table.append(rows(zone, LONG))
    said = str(caught.value)
    assert len(said) < 600
    mark = "Z" if zone else ""
    assert f"[2026-01-05T00:00:00{mark}, 2026-01-05T01:00:00{mark})" in said
    assert caught.value.identity == (LONG,)
    assert caught.value.start == AT.replace(tzinfo=UTC if zone else None)


def test_keys_that_come_twice_are_cut(tmp_path: Path, zone: str | None) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["k"], properties={"unique": True})
    with pytest.raises(DuplicateKey, match=r"10,000 characters") as caught:
        table.append(rows(zone, LONG, LONG))
    assert len(str(caught.value)) < 600
    assert caught.value.keys[0][0 if caught.value.columns[0] == "k" else 1] == LONG


def test_verify_and_fill_show_times_as_the_index_has_them(tmp_path: Path, zone: str | None) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["k"])
    table.append(rows(zone, "a"))
    start = AT.replace(hour=2, tzinfo=UTC if zone else None)
    end = start.replace(hour=3)
    with pytest.raises(FillStopped) as caught:
        table.fill(lambda *_: rows(zone, "a"), start=start, end=end)
    mark = "Z" if zone else ""
    assert f"[2026-01-05T02:00:00{mark}, 2026-01-05T03:00:00{mark})" in f"{caught.value} {caught.value.__cause__}"
    assert f"2026-01-05T00:00:00{mark}" in str(caught.value.__cause__)
    assert zone or "00Z" not in f"{caught.value} {caught.value.__cause__}"


def test_a_cell_of_a_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"ts,k\n{LONG},a\n")
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["k"])
    with pytest.raises(InvalidValue, match=r"10,000 characters") as caught:
        table.append_file(tmp_path / "a.csv")
    assert len(str(caught.value)) < 600
    assert caught.value.value == LONG


def test_values_are_whole_up_to_a_length_and_say_theirs_beyond() -> None:
    assert shorten("a" * 80) == repr("a" * 80)
    assert shorten("a" * 81) == repr("a" * 80) + "… (81 characters)"
    assert shorten(b"\0" * 81) == repr(b"\0" * 80) + "… (81 bytes)"
    assert shorten(7) == "7"
    assert shorten_text("a" * 160) == "a" * 160
    assert shorten(list(range(1000))).endswith(f"… ({len(repr(list(range(1000)))):,} characters)")
