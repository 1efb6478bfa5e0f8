"""Rows of a file with some of them edited, and statistics that say so."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.tables.delta.write.row_edit import Edit, all_gone, edited, with_loose_bounds
from support.delta_rows import told

KINDS = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats()),
    "flag": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=3)),
    "raw": (pa.binary(), st.binary(max_size=3)),
    "money": (pa.decimal128(38, 2), st.integers(-(10**30), 10**30).map(lambda n: Decimal(f"{n}e-2"))),
    "list": (pa.list_(pa.int32()), st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=2)),
    "struct": (pa.struct([("x", pa.string())]), st.fixed_dictionaries({"x": st.one_of(st.none(), st.just("y"))})),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_rows_that_stay_keep_their_place_and_their_bits(kind: str, data: st.DataObject) -> None:
    type_, values = KINDS[kind]
    before = data.draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=12))
    places = sorted(data.draw(st.sets(st.integers(0, len(before) - 1))))
    acts = data.draw(st.lists(st.sampled_from(["stay", "go", "change"]), min_size=len(places), max_size=len(places)))
    after = data.draw(st.lists(st.one_of(st.none(), values), min_size=acts.count("change"), max_size=acts.count("change")))
    edit = Edit(
        gone=np.array([act == "go" for act in acts], dtype=bool),
        changed=np.array([act == "change" for act in acts], dtype=bool),
        after=pa.table({"c": pa.array(after, type_)}),
    )
    # A slice, whose buffers begin elsewhere.
    rows = pa.table({"c": pa.array([None, *before, None], type_)}).slice(1, len(before))
    found = edited(rows, np.array(places, dtype=np.int64), edit)
    act_of = dict(zip(places, acts, strict=True))
    left = iter(after)
    wanted = [next(left) if act_of.get(at) == "change" else value for at, value in enumerate(before) if act_of.get(at) != "go"]
    assert [repr(told(value)) for value in found.column("c").to_pylist()] == [repr(told(value)) for value in wanted]
    assert found.schema == rows.schema


def test_all_rows_may_go() -> None:
    rows = pa.table({"c": [1, 2]})
    edit = all_gone(rows, np.arange(2))
    assert edited(rows, np.arange(2), edit).num_rows == 0
    assert edit.touched.all()


UNKNOWN = '{"numRecords":3,"tightBounds":false}'


@pytest.mark.parametrize(
    ("stats", "wanted"),
    [
        (None, UNKNOWN),
        ("", UNKNOWN),
        ("not json", UNKNOWN),
        ("[3]", UNKNOWN),
        ("{}", UNKNOWN),
        ('{"minValues":{"d":1}}', UNKNOWN),
        ('{"numRecords":4,"minValues":{"d":1}}', UNKNOWN),
        ('{"numRecords":3,"minValues":{"d":1.10}} ', '{"numRecords":3,"minValues":{"d":1.10},"tightBounds":false}'),
        ('{"tightBounds": true,"numRecords":3}', '{"tightBounds": false,"numRecords":3}'),
        ('{"numRecords":3,"tightBounds":false}', '{"numRecords":3,"tightBounds":false}'),
        (
            '{"minValues":{"tightBounds":true,"s":"\\"tightBounds\\":true"},"numRecords":3,"tightBounds":true,"maxValues":{"v":1.890}}',
            '{"minValues":{"tightBounds":true,"s":"\\"tightBounds\\":true"},"numRecords":3,"tightBounds":false,"maxValues":{"v":1.890}}',
        ),
        ('{"numRecords":3,"tightBounds":null}', '{"numRecords": 3, "tightBounds": false}'),
    ],
)
def test_bounds_are_no_longer_tight_and_all_else_stays_as_it_was_written(stats: str | None, wanted: str) -> None:
    """A file whose statistics do not say its rows, or say them wrong, keeps none but these."""
    assert with_loose_bounds(stats, 3) == wanted
    assert json.loads(wanted)["tightBounds"] is False
