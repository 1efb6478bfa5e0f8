"""timeseries-table-format 0.9.0 reads the schemas that we encode and the files that we store for them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import timeseries_table_format as ttf

from gapless.formats.timeseries.codec.schema import encode_schema, schema_features
from gapless.model.fit import fit
from gapless.model.index import IndexSpec, parse_bucket
from gapless.model.schema import adopt_schema

INDEX = IndexSpec(column="k", type="int64", bucket=parse_bucket(1, "int64"))
NAIVE = [datetime(2000, 1, 1, 1), None, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)]
AWARE = [at and at.replace(tzinfo=UTC) for at in NAIVE]


def write(root: Path, columns: dict[str, pa.Array], **given: Any) -> None:
    """A one-segment table, written by hand from what `encode_schema` and `fit` give."""
    length = len(next(iter(columns.values())))
    batch = pa.record_batch({"k": pa.array(range(length), pa.int64()), **columns})
    schema = adopt_schema(pa.schema([batch.schema.field("k"), *(f.with_metadata(given.get("field")) for f in list(batch.schema)[1:])],
                                    metadata=given.get("table")), INDEX)  # fmt: skip
    (root / "_timeseries_log").mkdir(parents=True)
    (root / "data").mkdir()
    pq.write_table(pa.Table.from_batches([fit(batch, schema, INDEX, 0)]), root / "data" / "a.parquet")
    meta = {
        "kind": {"TimeSeries": {"column": "k", "entity_columns": [], "kind": {"type": "int64", "index_granularity": 1}}},
        "logical_schema": encode_schema(schema), "created_at": "2026-11-27T21:16:46Z", "protocol_version": 7,
        "required_reader_features": sorted(schema_features(schema)), "required_writer_features": ["gapless"],
    }  # fmt: skip
    segment = {
        "path": "data/a.parquet", "format": "parquet", "entity_layout": "NotApplicable", "row_count": length,
        "index_min": {"type": "int64", "value": 0}, "index_max": {"type": "int64", "value": length - 1},
    }  # fmt: skip
    commit = {
        "version": 1, "base_version": 0, "timestamp": "2026-11-27T21:16:46Z",
        "actions": [{"UpdateTableMeta": meta}, {"AddSegment": segment}],
    }  # fmt: skip
    (root / "_timeseries_log" / "0000000001.json").write_text(json.dumps(commit))
    (root / "_timeseries_log" / "CURRENT").write_text("1\n")


def query(root: Path, sql: str = "select * from t order by k") -> pa.Table:
    session = ttf.Session()
    session.register_tstable("t", str(root))
    return pa.table(session.sql(sql))


READABLE = {
    "int8": pa.array([1, None, -128], pa.int8()),
    "int16": pa.array([1, None], pa.int16()),
    "uint8": pa.array([255, None], pa.uint8()),
    "uint16": pa.array([65_535, None], pa.uint16()),
    "uint32": pa.array([2**32 - 1, None], pa.uint32()),
    "uint64": pa.array([2**64 - 1, None], pa.uint64()),
    "dictionary": pa.array(["a", None, ""]),
    "large_string": pa.array(["a", None, ""], pa.large_string()),
    "string_view": pa.array(["a", None, ""], pa.string_view()),
    "binary_view": pa.array([b"a", None, b""], pa.binary_view()),
    "fixed binary": pa.array([b"abc", None], pa.binary(3)),
    **{f"naive {unit}": pa.array(NAIVE, pa.timestamp(unit)) for unit in ("s", "ms", "us")},
    **{f"aware {unit}": pa.array(AWARE, pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us")},
    "naive ns": pa.array(NAIVE[:2], pa.timestamp("ns")),
    "zone": pa.array(AWARE[:2], pa.timestamp("ms", "Asia/Tokyo")),
    "offset": pa.array(AWARE[:2], pa.timestamp("s", "-03:30")),
    **{str(t): pa.array([Decimal("1.25"), None], t) for t in (pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(20, 2),
                                                            pa.decimal256(5, 2), pa.decimal256(60, 2))},
    "list": pa.array([[1, None], None, []], pa.list_(pa.int8())),
    "strict list": pa.array([["a"], None, []], pa.list_(pa.field("element", pa.string(), nullable=False))),
    "struct": pa.array([{"a": 1, "t": NAIVE[0]}, None, {"a": None, "t": None}], pa.struct([("a", pa.int8()), ("t", pa.timestamp("s"))])),
    "strict struct": pa.array([{"a": 1}, None], pa.struct([pa.field("a", pa.uint8(), nullable=False)])),
    "strict map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
    "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.uint16())),
}  # fmt: skip


@pytest.mark.parametrize("name", READABLE)
def test_it_reads_every_type_that_needs_no_feature(tmp_path: Path, name: str) -> None:
    values = READABLE[name].dictionary_encode() if name == "dictionary" else READABLE[name]
    write(tmp_path / "t", {"v": values})
    found = query(tmp_path / "t").column("v")
    assert _instants(found.to_pylist()) == _instants(values.to_pylist())
    count = query(tmp_path / "t", "select count(*) n from t where v is not null")
    assert count.column("n")[0].as_py() == len(values) - values.null_count


def _instants(values: list[Any]) -> list[Any]:
    return [value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value for value in values]


def test_it_reads_all_of_them_in_one_table_and_filters(tmp_path: Path) -> None:
    write(tmp_path / "t", {name: values.slice(0, 2) for name, values in READABLE.items()})
    assert query(tmp_path / "t", 'select k from t where "uint32" > 5 and "naive s" < \'2000-01-02\'').to_pylist() == [{"k": 0}]


def test_it_does_not_see_our_metadata_nor_columns_of_unknown_type(tmp_path: Path) -> None:
    write(tmp_path / "t", {"a": pa.nulls(2), "v": pa.array([1, 2], pa.int8())}, field={"unit": "V"}, table={"owner": "me"})
    assert query(tmp_path / "t").to_pylist() == [{"k": 0, "v": 1}, {"k": 1, "v": 2}]


@pytest.mark.parametrize(
    "type_", [pa.date32(), pa.float16(), pa.duration("s"), pa.list_(pa.time32("s")), pa.list_(pa.int8(), 2)], ids=str
)
def test_it_refuses_types_that_it_would_read_wrong(tmp_path: Path, type_: pa.DataType) -> None:
    write(tmp_path / "t", {"v": pa.nulls(1, type_)})
    with pytest.raises(ttf.TimeseriesTableError, match="gapless_types"):
        ttf.TimeSeriesTable.open(str(tmp_path / "t"))
