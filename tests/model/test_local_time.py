import struct
from importlib import resources
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gapless.model.fit import NoInstant, instants

ZONES = [
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "UTC",
]


def half_hours(first: str, last: str, unit: str) -> pa.Array:
    return pa.array(np.arange(np.datetime64(first), np.datetime64(last), np.timedelta64(30, "m")).astype(f"datetime64[{unit}]"))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ZONES)
def test_it_agrees_with_arrow_on_every_half_hour_of_years_with_changes(zone: str, unit: str) -> None:
    for first, last in (("2011-06-01", "2012-02-01"), ("2024-01-01", "2025-01-01")):
        wall = half_hours(first, last, unit)
        # Where Arrow's two choices agree, the wall time is one instant.
        early = pc.assume_timezone(wall, zone, ambiguous="earliest", nonexistent="earliest").cast(pa.int64()).to_numpy()
        late = pc.assume_timezone(wall, zone, ambiguous="latest", nonexistent="latest").cast(pa.int64()).to_numpy()
        single = early == late
        found = instants(wall.filter(pa.array(single)), zone)
        assert found.type == pa.timestamp(unit, "UTC")
        assert (found.cast(pa.int64()).to_numpy() == early[single]).all()
        for row in np.flatnonzero(~single)[::7]:
            with pytest.raises(NoInstant):
                instants(wall.slice(int(row), 1), zone)


def test_the_first_bad_row_is_named_and_its_kind() -> None:
    texts = ["2024-06-01T00:00", "2024-11-03T01:59", "2024-03-10T02:30"]
    with pytest.raises(NoInstant) as caught:
        instants(pa.array(np.array(texts, dtype="datetime64[s]")), "America/New_York")
    assert (caught.value.row, caught.value.kind) == (1, "repeats")


def test_a_day_that_a_zone_left_out_is_skipped() -> None:
    with pytest.raises(NoInstant, match="skips"):
        instants(pa.array(np.array(["2011-12-30T12:00"], dtype="datetime64[s]")), "Pacific/Apia")


def test_years_beyond_the_calendar_and_overflows_have_no_instant() -> None:
    for unit, value in (("s", 2**40), ("s", -(2**40)), ("ns", 2**63 - 1)):
        with pytest.raises(NoInstant, match="range"):
            instants(pa.array([value], pa.timestamp(unit)), "America/New_York")
    assert len(instants(pa.array([], pa.timestamp("s")), "America/New_York")) == 0


def changes(data: bytes) -> list[int]:
    """The seconds at which the offset of a TZif file changes (RFC 8536), read by our own code."""

    def header(at: int) -> tuple[int, ...]:
        return struct.unpack(">20x6l", data[at : at + 44])

    utc, std, leap, times, types, chars = header(0)
    at = 44 + times * 5 + types * 6 + chars + leap * 8 + std + utc
    times, types = header(at)[3:5]
    at += 44
    seconds = struct.unpack(f">{times}q", data[at : at + 8 * times])
    kinds = data[at + 8 * times : at + 9 * times]
    at += 9 * times
    offsets = [struct.unpack(">l", data[at + 6 * n : at + 6 * n + 4])[0] for n in range(types)]
    previous = [offsets[0], *(offsets[kind] for kind in kinds)]
    return [second for second, kind, before in zip(seconds, kinds, previous, strict=False) if offsets[kind] != before]


def test_no_zone_changes_its_offset_twice_within_six_days() -> None:
    root = resources.files("tzdata")
    closest = {}
    for name in (root / "zones").read_text().split():
        seconds = changes((root / "zoneinfo").joinpath(*name.split("/")).read_bytes())
        closest[name] = min((b - a for a, b in pairwise(seconds)), default=10**9)
    assert len(closest) > 500
    assert min(closest.values()) > 6 * 86_400
