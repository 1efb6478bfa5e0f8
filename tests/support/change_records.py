"""Random change records."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gapless.cdc import ChangeSource, Record

INTS = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)])
SCALARS = st.none() | st.booleans() | INTS | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
IMAGES = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)
NAMES = st.text(min_size=1, max_size=8)
SYSTEMS = NAMES | st.sampled_from(["mysql", "mongodb", "postgresql"])
NUMBERS = st.integers(0, 2**63 - 1)
IDS = VALUES.filter(lambda value: value is not None) | st.sampled_from(
    [{"schema": 1, "payload": 2}, {"id": 1}, {}, [], "", '{"a":1}']
)


@st.composite
def records(draw: st.DrawFn, systems: st.SearchStrategy[str] = SYSTEMS) -> Record:
    """Any record that can be."""
    operation = draw(st.sampled_from("cudr"))
    images: dict[str, Any] = {"_before": None, "_after": None}
    if operation != "d":
        images["_after"] = draw(IMAGES)
    if operation in "ud":
        images["_before"] = draw(st.none() | IMAGES)
    return Record(
        _id=draw(IDS),
        _seq=draw(NUMBERS | st.lists(NUMBERS, min_size=1, max_size=5).map(tuple)),
        _op=operation,
        _ts=draw(st.integers(-(2**62), 2**62)),
        _source=ChangeSource(
            system=draw(systems),
            database=draw(st.none() | NAMES),
            collection=draw(st.none() | NAMES | st.sampled_from(["public.orders", "a.", ".b", "a.b.c"])),
            partition=draw(st.none() | NUMBERS),
            server_id=draw(st.none() | NAMES),
        ),
        _txn=draw(st.none() | NAMES),
        **images,
    )
