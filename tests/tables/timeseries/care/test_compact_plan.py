"""Which segments go together, and which stay as they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.errors import InvalidOption, UnknownColumn, UnsupportedType
from gapless.model.index import Identity, IndexSpec, IntWidth
from gapless.model.segment import Bounds, InlineCoverage, Segment
from gapless.tables.timeseries.care.compact_plan import CompactionPlan, CompactOptions, plan_compaction

INDEX = IndexSpec(column="i", type="int64", bucket=IntWidth(10), entity=("e",))
PLAIN = IndexSpec(column="i", type="int64", bucket=IntWidth(10))
SCHEMA = pa.schema([("i", pa.int64()), ("e", pa.string()), ("x", pa.float64()), ("y", pa.list_(pa.int8()))])
OPTIONS = CompactOptions(target_size=1_000, sort_bytes=10**9)
SORTED = ("e", "i")


def segment(
    name: str, first: int, last: int, size: int | None = 100, rows: int = 10, identity: Identity | None = None, **rest: Any
) -> Segment:
    return Segment(
        path=f"data/{name}.parquet",
        rows=rows,
        size=size,
        bounds=Bounds(first=first, last=last),
        index_type="int64",
        identity=identity,
        identity_types=("utf8",) if identity else (),
        coverage=InlineCoverage(b""),
        **{"sorted_by": SORTED, **rest},
    )


def row(count: int, size: int = 100, **rest: Any) -> list[Segment]:
    return [segment(f"{k:03}", 10 * k, 10 * k + 9, size, **rest) for k in range(count)]


def plan(segments: list[Segment], options: CompactOptions = OPTIONS, index: IndexSpec = INDEX, **rest: Any) -> CompactionPlan:
    return plan_compaction(segments, index, SCHEMA, options, **rest)


def shape(found: CompactionPlan) -> list[list[str]]:
    return [[s.path.removeprefix("data/").removesuffix(".parquet") for s in one.segments] for one in found.bins]


def left(found: CompactionPlan) -> dict[str, str]:
    return {path.removeprefix("data/").removesuffix(".parquet"): why for path, why in found.left.items()}


def test_small_neighbours_fill_one_segment_after_the_other() -> None:
    found = plan(row(25))
    assert [len(one) for one in shape(found)] == [10, 10, 5]
    assert shape(found)[0] == [f"{k:03}" for k in range(10)]
    assert not found.left


def test_large_segments_are_left_and_small_ones_reach_over_them() -> None:
    segments = [segment("a", 0, 9), segment("large", 10, 19, 500), segment("b", 20, 29)]
    found = plan(segments)
    assert shape(found) == [["a", "b"]]
    assert left(found) == {"large": "large enough"}


def test_a_single_small_segment_is_left_alone() -> None:
    found = plan([segment("a", 0, 9), segment("large", 10, 19, 5_000)])
    assert (shape(found), left(found)) == ([], {"a": "alone", "large": "large enough"})


def inlined(name: str, first: int, last: int) -> Segment:
    return segment(name, first, last, data=b"x" * 100)


def test_a_segment_without_a_file_goes_with_others_or_alone() -> None:
    found = plan([inlined("a", 0, 9), segment("large", 10, 19, 5_000)])
    assert (shape(found), left(found)) == ([["a"]], {"large": "large enough"})
    assert dict(found.bins[0].causes) == {"inlined": 1}
    assert not found.bins[0].must_shrink
    found = plan([inlined("a", 0, 9), segment("b", 10, 19), inlined("c", 20, 29)])
    assert shape(found) == [["a", "b", "c"]]
    assert dict(found.bins[0].causes) == {"inlined": 2, "small": 1}


def test_one_across_a_windows_edge_stays_without_a_file() -> None:
    options = replace(OPTIONS, window=IntWidth(10))
    found = plan([inlined("a", 5, 14), inlined("b", 20, 29)], options)
    assert (shape(found), left(found)) == ([["b"]], {"a": "across a window's edge"})


def test_memory_ends_a_bin_where_identities_are_sorted_and_not_where_rows_stream() -> None:
    options = replace(OPTIONS, target_size=10**6, sort_bytes=10_000)
    segments = row(40, rows=20)
    assert max(len(one) for one in shape(plan(segments, options))) < 10
    alone = [replace(s, sorted_by=("i",), identity=()) for s in segments]
    assert [len(one) for one in shape(plan(alone, options, PLAIN))] == [40]


def test_a_segment_whose_size_is_not_known_counts_by_its_rows() -> None:
    found = plan([segment("a", 0, 9, None, rows=1), segment("b", 10, 19, None, rows=1), segment("c", 20, 29, None, rows=1_000)])
    assert (shape(found), left(found)) == ([["a", "b"]], {"c": "large enough"})


def test_no_bin_crosses_an_edge_of_a_window_and_what_does_stays_whole() -> None:
    segments = [
        segment("a", 0, 40),
        segment("b", 41, 99),
        segment("across", 95, 100),
        segment("c", 100, 120),
        segment("d", 199, 199),
    ]
    found = plan(segments, replace(OPTIONS, window=IntWidth(100)))
    assert shape(found) == [["a", "b"], ["c", "d"]]
    assert left(found) == {"across": "across a window's edge"}


def test_identities_stay_apart_where_the_large_segments_hold_one_each() -> None:
    small = [segment(f"{k}", 10 * k, 10 * k + 9, identity=("ab"[k % 2],)) for k in range(4)]
    mixed = [segment("m", 0, 9), segment("n", 10, 19)]
    large = segment("large", 0, 100, 900, identity=("a",))
    assert sorted(shape(plan([*small, *mixed, large]))) == [["0", "2"], ["1", "3"], ["m", "n"]]


def test_identities_that_only_small_segments_hold_alone_are_no_layout() -> None:
    small = [segment(f"{k}", 10 * k, 10 * k + 9, identity=(f"id{k}",)) for k in range(4)]
    assert shape(plan(small)) == [["0", "1", "2", "3"]]
    assert shape(plan([*small, segment("large", 0, 100, 900)])) == [["0", "1", "2", "3"]]


def test_segments_that_overlap_are_read_in_order_of_arrival() -> None:
    assert shape(plan([segment("late", 5, 9), segment("early", 0, 5)])) == [["late", "early"]], "equal keys keep their order"
    assert shape(plan([segment("late", 6, 9), segment("early", 0, 5)])) == [["early", "late"]], "none can be equal"


def test_another_codec_is_a_cause_only_where_one_is_asked_for() -> None:
    segments = [segment("a", 0, 9, 900), segment("b", 10, 19, 900)]
    codecs: Any = {"data/a.parquet": "snappy", "data/b.parquet": "zstd"}
    assert shape(plan(segments, codecs=codecs)) == []
    found = plan(segments, replace(OPTIONS, codec="zstd"), codecs=codecs)
    assert shape(found) == [["a"]]
    assert dict(found.bins[0].causes) == {"other codec": 1}
    assert not found.bins[0].must_shrink
    assert shape(plan(segments, replace(OPTIONS, codec="zstd"), codecs=codecs, settled={"data/a.parquet"})) == []


def test_large_segments_that_overlap_or_are_not_sorted_are_written_again_on_request() -> None:
    segments = [
        segment("a", 0, 50, 900), segment("b", 40, 90, 900), segment("c", 89, 95, 10),
        segment("d", 200, 210, 900, sorted_by=()), segment("e", 300, 310, 900),
    ]  # fmt: skip
    assert shape(plan(segments)) == []
    found = plan(segments, replace(OPTIONS, resort=True))
    assert shape(found) == [["a", "b", "c"], ["d"]]
    assert [dict(one.causes) for one in found.bins] == [{"overlapping": 3}, {"not sorted": 1}]
    assert left(found) == {"e": "large enough"}


def test_what_must_be_sorted_and_does_not_fit_in_memory_is_cut_along_the_index() -> None:
    segments = [segment("a", 0, 999, 900, rows=1_000), segment("b", 500, 1_499, 900, rows=1_000)]
    options = replace(OPTIONS, resort=True, sort_bytes=30_000)
    (one,) = plan(segments, options).bins
    assert len(one.windows) > 2
    assert (one.windows[0][0], one.windows[-1][1]) == (0, 1_500)
    assert all(left[1] == right[0] for left, right in pairwise(one.windows))
    (sorted_alone,) = plan(
        [segment("a", 0, 999, 900, rows=1_000)], replace(options, codec="none", resort=False), codecs={"data/a.parquet": "zstd"}
    ).bins
    assert sorted_alone.windows == (), "rows in order stream through"


def test_segments_that_are_clustered_stay_with_their_like() -> None:
    clustered = [segment(f"z{k}", 10 * k, 10 * k + 9, sorted_by=(), clustered_by=("x",)) for k in range(2)]
    found = plan([*clustered, *row(2)])
    assert sorted(shape(found)) == [["000", "001"], ["z0", "z1"]]
    assert sorted(one.cluster_by for one in found.bins) == [(), ("x",)]
    again = plan([*clustered, *row(2)], replace(OPTIONS, resort=True))
    assert [one.cluster_by for one in again.bins] == [()], "a sort that is asked for outweighs"


def test_clustering_takes_up_all_that_are_not_clustered_so() -> None:
    segments = [segment("a", 0, 9, 900), segment("b", 10, 19, 900, sorted_by=(), clustered_by=("x",))]
    found = plan(segments, replace(OPTIONS, cluster_by=("x",)))
    assert (shape(found), left(found)) == ([["a"]], {"b": "large enough"})


def test_a_budget_ends_the_plan() -> None:
    found = plan(row(25), replace(OPTIONS, max_bytes=1_999))
    assert [len(one) for one in shape(found)] == [10]
    assert set(left(found).values()) == {"left for later"}
    assert len(left(found)) == 15


def test_the_plan_says_what_it_does_and_why() -> None:
    segments = [*row(3), segment("large", 0, 5, 800), segment("across", 95, 105)]
    text = plan(segments, replace(OPTIONS, window=IntWidth(100))).explain()
    assert "1 bin: 3 segments of 5" in text
    assert "3 segments, 30 rows, 0.0 MiB towards 0.0 MiB each (3 small)" in text
    assert "1 segment large enough" in text
    assert "1 segment with rows on both sides of a window's edge" in text


sizes = st.lists(
    st.tuples(st.integers(1, 1_500), st.integers(1, 400), st.integers(0, 60), st.integers(0, 30), st.sampled_from("abc")),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(sizes, st.sampled_from([None, IntWidth(20)]), st.sampled_from([3_000, 10**9]), st.booleans())
def test_bins_hold_each_segment_once_no_more_than_fits_and_what_comes_out_is_left_alone(
    given: list[tuple[int, int, int, int, str]], window: IntWidth | None, sort_bytes: int, resort: bool
) -> None:
    segments = [
        segment(str(k), first, first + length, size, rows, identity=(e,) if k % 3 else None)
        for k, (size, rows, first, length, e) in enumerate(given)
    ]
    options = replace(OPTIONS, window=window, sort_bytes=sort_bytes, resort=resort)
    found = plan(segments, options)
    taken = [path for one in found.bins for path in one.paths]
    assert sorted([*taken, *found.left]) == sorted(s.path for s in segments)
    for one in found.bins:
        if window is not None:
            assert len({end // 20 for s in one.segments for end in (s.bounds.first, s.bounds.last)}) == 1
        if not resort:
            assert one.size <= 1_000
            assert len(one.segments) > 1
    merged = [
        segment(
            f"m{k}", min(s.bounds.first for s in one.segments), max(s.bounds.last for s in one.segments), one.size, one.rows
        )
        for k, one in enumerate(found.bins)
    ]
    rest = [s for s in segments if s.path in found.left]
    settled = {s.path for s in merged}
    current, rounds = [*rest, *merged], 0
    while (again := plan(current, options, settled=settled)).bins:
        rounds += 1
        assert all(len(one.segments) > 1 for one in again.bins), "every further round leaves fewer"
        assert rounds < 10
        made = [
            segment(f"r{rounds}-{k}", one.segments[0].bounds.first, one.segments[0].bounds.last, one.size, one.rows)
            for k, one in enumerate(again.bins)
        ]
        settled |= {s.path for s in made}
        current = [*(s for s in current if s.path in again.left), *made]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"target_size": 0}, InvalidOption), ({"target_size": "big"}, InvalidOption), ({"target_size": True}, InvalidOption),
        ({"window": "1d"}, InvalidOption), ({"window": 0}, InvalidOption), ({"codec": "zip"}, InvalidOption),
        ({"cluster_by": ["x", "x"]}, InvalidOption), ({"cluster_by": list("abcde")}, InvalidOption),
        ({"cluster_by": ["nope"]}, UnknownColumn), ({"cluster_by": ["y"]}, UnsupportedType),
        ({"cluster_by": ["x"], "resort": True}, InvalidOption), ({"cluster_by": 3}, InvalidOption),
    ],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        CompactOptions.parse(index=INDEX, schema=SCHEMA, **given)


def test_options_are_read_as_users_spell_them() -> None:
    options = CompactOptions.parse(index=INDEX, schema=SCHEMA, window=100, codec="snappy", cluster_by="x")
    assert (options.window, options.codec, options.cluster_by) == (IntWidth(100), "snappy", ("x",))
    assert CompactOptions.parse(index=INDEX, schema=None) == CompactOptions()
