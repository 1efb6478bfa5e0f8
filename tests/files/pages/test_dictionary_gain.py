"""The estimate of what a dictionary of floats takes is near what one takes, for values of many kinds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.files.pages.encodings import Floats, dictionary_bytes, is_shorter, may_be_shorter, plain_bytes

ROWS, SAMPLED = 262_144, 8_192
DICE = np.random.default_rng(3)


def written(values: Floats, *, dictionary: bool) -> float:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": values}), sink, compression="zstd", compression_level=1, use_dictionary=dictionary)
    return float(sink.tell()) / len(values)


@pytest.mark.parametrize(
    ("values", "pays"),
    [
        (np.round(DICE.normal(100, 1, ROWS), 4), True),
        (np.round(DICE.uniform(0, 1, ROWS), 4), True),
        (np.round(DICE.uniform(0, 100, ROWS), 4), False),
        (np.round(100 + DICE.normal(0, 1, ROWS).cumsum() * 0.07, 4), False),
        (DICE.normal(0, 1, ROWS), False),
        (np.round(DICE.normal(100, 1, ROWS), 4).astype(np.float32), True),
    ],
    ids=["many prices", "few parts", "many parts", "a walk", "noise", "short floats"],
)
def test_a_dictionary_is_made_where_it_pays(values: Floats, pays: bool) -> None:
    distinct = len(np.unique(values[np.linspace(0, ROWS - 1, SAMPLED).astype(int)]))
    guessed = dictionary_bytes(distinct, SAMPLED, ROWS, values.itemsize)
    plain = plain_bytes(values[ROWS // 2 : ROWS // 2 + SAMPLED], "zstd")
    assert is_shorter(guessed, plain) is pays
    actual, actual_plain = written(values, dictionary=True), written(values, dictionary=False)
    assert plain == pytest.approx(actual_plain, rel=0.3)
    assert pays or actual > 0.75 * actual_plain, "no large gain is missed"
    assert not pays or actual < 1.05 * actual_plain, "nothing is lost"


def test_nothing_takes_nothing_and_what_is_not_compressed_its_width() -> None:
    assert plain_bytes(np.zeros(0), "zstd") == 0
    assert plain_bytes(np.zeros(9), "none") == 8
    assert not is_shorter(dictionary_bytes(1, 1, 1, 8), 0)


@pytest.mark.parametrize("kind", ["f8", "f4", "i8", "i4"])
@pytest.mark.parametrize("rows", [8_192, 50_000])
def test_no_dictionary_that_would_be_shorter_is_ruled_out(kind: str, rows: int) -> None:
    ruled_out = 0
    for share in (0.2, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1):
        for step in (1, 7_919):
            kinds = np.arange(max(1, int(rows * share))) * step
            values = np.concatenate((kinds, DICE.choice(kinds, rows - len(kinds)))).astype(kind)
            values = DICE.permutation(values) if step > 1 else np.sort(values)
            if may_be_shorter(len(np.unique(values)), rows, values.itemsize):
                continue
            ruled_out += 1
            assert written(values, dictionary=True) > written(values, dictionary=False)
    assert ruled_out


def test_a_dictionary_of_no_value_or_of_one_is_not_ruled_out() -> None:
    assert may_be_shorter(0, 0, 8)
    assert may_be_shorter(1, 100, 1)
    assert not may_be_shorter(100, 100, 8)
