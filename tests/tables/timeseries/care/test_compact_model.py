"""Whatever small segments a table has, and however it is compacted: the same rows, the same coverage, and a log that says what is so."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.model.index import IntWidth
from gapless.tables.timeseries.care.compact_plan import CompactOptions

Row = tuple[int, str, float | None, str | None]
SCHEMA = pa.schema([("i", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("s", pa.string())])
WIDTH = 5

row = st.tuples(
    st.integers(-60, 60),
    st.sampled_from(["a", "b", "ü"]),
    st.none() | st.floats(width=32),
    st.none() | st.text(max_size=3) | st.just("long" * 40),
)
options = st.builds(
    CompactOptions,
    target_size=st.sampled_from([1, 3_000, 10_000, 10**8]),
    sort_bytes=st.sampled_from([200, 2_000, 10**8]),
    window=st.sampled_from([None, IntWidth(20)]),
    codec=st.sampled_from([None, "snappy", "none"]),
) | st.sampled_from(
    [CompactOptions(resort=True, sort_bytes=500), CompactOptions(cluster_by=("x", "s")), CompactOptions(cluster_by=("k",))]
)


def columns(rows: list[Row]) -> pa.Table:
    return pa.Table.from_arrays(
        [pa.array(list(c), f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)], schema=SCHEMA
    )


def same(rows: list[Any]) -> list[str]:
    """In any order; NaN is itself."""
    return sorted(map(repr, rows))


def covered(rows: list[Row], *, by_identity: bool) -> dict[tuple[str, ...], set[int]]:
    found: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for i, k, *_ in rows:
        found[(k,) if by_identity else ()].add(i // WIDTH)
    return dict(found)


def check(table: gl.TimeSeriesTable, root: Path, rows: list[Row], entity: list[str]) -> None:
    scanned = [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]
    assert same(scanned) == same(rows)
    for _, group in itertools.groupby(sorted(enumerate(scanned), key=lambda pair: pair[1][1]), key=lambda pair: pair[1][1]):
        order = [row[0] for _, row in group] if entity else []
        assert order == sorted(order), "each identity's rows come in index order"
    if not entity:
        assert [row[0] for row in scanned] == sorted(row[0] for row in scanned)
    files = [str(root / segment.path) for segment in table.segments()]
    found = duckdb.sql(f"SELECT i, k, x, s FROM read_parquet({files!r})")
    assert found is not None
    assert same(found.fetchall()) == same(rows)
    answer = table.coverage()
    buckets = {
        identity: {bucket.start // WIDTH for bucket in answer.buckets() if bucket.identity == identity}
        for identity in answer.identities
    }
    assert buckets == covered(rows, by_identity=bool(entity))
    assert not table.verify(deep=True).findings


@settings(max_examples=25)
@given(
    appends=st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=12),
    entity=st.sampled_from([[], ["k"]]),
    runs=st.lists(options, min_size=1, max_size=3),
)
def test_compaction_changes_nothing_but_where_rows_lie(
    appends: list[list[Row]], entity: list[str], runs: list[CompactOptions]
) -> None:
    rows = [row for rows in appends for row in rows]
    with TemporaryDirectory() as folder:
        root = Path(folder) / "t"
        table = gl.create(
            root, index="i", index_type="int64", entity=entity, bucket=WIDTH, schema=SCHEMA, properties={"on_overlap": "allow"}
        )
        for part in appends:
            table.append(columns(part))
        old = gl.open(root)
        for wanted in runs:
            before = len(table.segments())
            report = table._compactor(wanted).compact(table._snapshot)
            table.refresh()
            if not (wanted.resort or wanted.codec or wanted.cluster_by):
                assert len(table.segments()) <= before
                assert len(table.segments()) == before - report.segments_before + report.segments_after
                again = table._compactor(wanted).compact(table._snapshot)
                assert (again.version, again.bins) == (report.version, 0), "a second run finds nothing to do"
            check(table, root, rows, entity)
        assert same([tuple(row.values()) for row in old.scan().to_arrow().to_pylist()]) == same(rows)
