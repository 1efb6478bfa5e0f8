"""Files whose columns lie otherwise than a table's segments hold them: refused by name, with table and file as they were."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import gapless as gl
from gapless.errors import GaplessError, SchemaMismatch, UnreadableInput

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
UTC_US = pa.timestamp("us", "UTC")
IDS = {b"PARQUET:field_id": b"7"}


def rows(type_: pa.DataType = UTC_US, **others: Any) -> pa.Table:
    """Two rows of one series, with the index as `type_`."""
    times = pa.array([START + dt.timedelta(hours=hour) for hour in range(2)], UTC_US)
    return pa.table({"ts": times.cast(type_), "symbol": ["A", "A"], **others})


def everything() -> pa.Schema:
    """Columns whose stored types differ from what files of others may hold."""
    return pa.schema(
        [
            pa.field("ts", UTC_US, nullable=False),
            pa.field("symbol", pa.string(), nullable=False),
            pa.field("n", pa.int64()),
            pa.field("small", pa.int16()),
            pa.field("un", pa.uint32()),
            pa.field("x", pa.float64()),
            pa.field("at", UTC_US),
            pa.field("local", pa.timestamp("us", "Europe/Paris")),
            pa.field("coarse", pa.timestamp("ms", "UTC")),
            pa.field("amount", pa.decimal128(9, 2)),
            pa.field("word", pa.string()),
            pa.field("always", pa.int64(), nullable=False),
            pa.field("list", pa.list_(pa.int64())),
            pa.field("pair", pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.int64(), nullable=False)])),
            pa.field("raw", pa.binary(16)),
        ]
    )


def full(**others: Any) -> pa.Table:
    """Two rows with the column that is never null, and others."""
    return rows(always=pa.array([1, 2]), **others)


NAIVE = pa.array([dt.datetime(2026, 1, 5)] * 2, pa.timestamp("us"))
AT = pa.array([START] * 2, UTC_US)
PAIRS = pa.array([{"a": 1, "b": 2}] * 2, pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.int64())]))

REFUSED: dict[str, tuple[pa.Table, dict[str, Any], str]] = {
    "an index in ms": (full().set_column(0, "ts", rows(pa.timestamp("ms", "UTC"))["ts"]), {}, r"^ts: timestamp\[ms"),
    "an index in ns": (full().set_column(0, "ts", rows(pa.timestamp("ns", "UTC"))["ts"]), {}, r"^ts: timestamp\[ns"),
    "an index of another zone": (full().set_column(0, "ts", rows(pa.timestamp("us", "Asia/Tokyo"))["ts"]), {}, "^ts: .*Asia/Tokyo"),
    "type_02 int96": (full(at=AT), {"use_deprecated_int96_timestamps": True}, "^ts: .*INT96|^ts: timestamp"),
    "int32 for int64": (full(n=pa.array([1, 2], pa.int32())), {}, "^n: int32"),
    "int8 for int16": (full(small=pa.array([1, 2], pa.int8())), {}, "^small: int8"),
    "uint32 as 64 bits": (full(un=pa.array([1, 2], pa.uint32())), {"version": "1.0"}, "^un: .*int64 in the input"),
    "float32 for float64": (full(x=pa.array([1, 2], pa.float32())), {}, "^x: float"),
    "a declared zone in the file": (full(local=AT.cast(pa.timestamp("us", "Europe/Paris"))), {}, "^local: .*Europe/Paris"),
    "what the table has coarser": (full(coarse=AT), {}, r"^coarse: timestamp\[ms"),
    "other digits": (full(amount=pa.array([Decimal("1.1")] * 2, pa.decimal128(9, 1))), {}, "^amount: decimal"),
    "a dictionary": (full(word=pa.array(["a", "b"]).dictionary_encode()), {}, "^word: dictionary"),
    "nulls where none may be": (rows(always=pa.array([1, None])), {}, "^always: .*1 times"),
    "maybe nulls": (full(), {"write_statistics": False}, "^always: .*does not say"),
    "only nulls": (full(word=pa.nulls(2)), {}, "^word: .*nothing but nulls"),
    "type_06 items of another name": (
        full(list=pa.array([[1], []], pa.list_(pa.int64()))), {"use_compliant_nested_type": False}, "^list: .*item",
    ),
    "a nested field that may be null": (full(pair=PAIRS), {}, "^pair: "),
    "an extension": (full(raw=pa.array([bytes(16)] * 2, pa.uuid())), {}, "^raw: extension"),
    "field ids": (full(n=pa.array([1, 2])).cast(full(n=pa.array([1, 2])).schema.set(3, pa.field("n", pa.int64(), metadata=IDS))), {}, "^n: .*field ids"),
    "a column that is missing": (rows(), {}, "^always: missing"),
    "a column the table lacks": (full(extra=pa.array([1, 2])), {}, "^extra: not in the table"),
}  # fmt: skip


def everywhere(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(tmp_path: Path, name: str) -> None:
    data, options, difference = REFUSED[name]
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h", schema=everything())
    pq.write_table(data, tmp_path / "in.parquet", **options)
    before = everywhere(tmp_path)
    with pytest.raises(SchemaMismatch) as refused:
        table.append_file(tmp_path / "in.parquet", adopt="move")
    assert any(re.search(difference, line) for line in refused.value.differences), refused.value
    assert everywhere(tmp_path) == before


def test_what_lies_as_it_should_is_taken(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h", schema=everything())
    pairs = PAIRS.cast(everything().field("pair").type)
    data = full(
        n=pa.array([1, None]), small=pa.array([1, 2], pa.int16()), un=pa.array([1, 2**32 - 1], pa.uint32()), at=AT,
        local=AT, amount=pa.array([Decimal("1.10"), None], pa.decimal128(9, 2)), word=pa.array(["a", None], pa.large_string()),
        list=pa.array([[1], None], pa.large_list(pa.int64())), pair=pairs, raw=pa.array([bytes(16)] * 2, pa.binary(16)),
    )  # fmt: skip
    pq.write_table(data, tmp_path / "in.parquet")
    table.append_file(tmp_path / "in.parquet", adopt="copy")
    back = table.scan(columns=data.column_names).to_arrow()
    assert back.cast(data.schema).equals(data)
    assert back.schema.field("local").type == pa.timestamp("us", "Europe/Paris")
    assert table.verify(deep=True).findings == ()


def test_a_first_file_settles_the_columns_or_is_refused(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h")
    pq.write_table(rows(pa.timestamp("ms", "UTC")), tmp_path / "ms.parquet")
    with pytest.raises(SchemaMismatch, match="without adopt"):
        table.append_file(tmp_path / "ms.parquet", adopt="copy")
    assert table.schema is None
    pq.write_table(rows(n=pa.array([1, 2], pa.int32())), tmp_path / "in.parquet")
    table.append_file(tmp_path / "in.parquet", adopt="copy")
    assert gl.open(table.url).schema == pa.schema(
        [pa.field("ts", UTC_US, False), pa.field("symbol", pa.string(), False), pa.field("n", pa.int32())]
    )


def test_type_02_int96_is_refused_where_the_unit_fits(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h")
    pq.write_table(rows(pa.timestamp("ns")), tmp_path / "in.parquet", use_deprecated_int96_timestamps=True)
    with pytest.raises(SchemaMismatch, match="ts: stored as INT96, INT64 in the table's files"):
        table.append_file(tmp_path / "in.parquet", adopt="copy")


def test_type_13_a_renamed_column_is_another_in_files(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h")
    table.append(rows(n=pa.array([1, 2])))
    table.rename_column("n", "m")
    later = rows(m=pa.array([3, 4])).set_column(1, "symbol", pa.array(["B", "B"]))
    pq.write_table(later, tmp_path / "in.parquet")
    with pytest.raises(SchemaMismatch, match="by another name in its files"):
        table.append_file(tmp_path / "in.parquet", adopt="copy")
    table.append_file(tmp_path / "in.parquet")
    assert table.scan(columns=["m"]).to_arrow()["m"].to_pylist() == [1, 2, 3, 4]


def test_local_times_are_no_instants_yet(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1d", timezone="Europe/Berlin")
    pq.write_table(rows(pa.timestamp("us", "UTC")), tmp_path / "utc.parquet")
    table.append_file(tmp_path / "utc.parquet", adopt="copy")
    later = pa.array([dt.datetime(2026, 2, 1), dt.datetime(2026, 2, 2)], pa.timestamp("us"))
    pq.write_table(rows().set_column(0, "ts", later), tmp_path / "wall.parquet")
    with pytest.raises(SchemaMismatch, match=r"ts: timestamp\[us\] in the file"):
        table.append_file(tmp_path / "wall.parquet", adopt="copy")
    table.append_file(tmp_path / "wall.parquet")
    assert table.scan().count() == 4


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[40:60] = bytes(20)
    path.write_bytes(data)


def _no_parquet(path: Path) -> None:
    path.write_bytes(b"PAR1 but no more")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [_torn, _in_the_middle, _no_parquet, _empty])
def test_a_damaged_file_is_refused(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h")
    pq.write_table(rows(), tmp_path / "in.parquet", write_page_checksum=True, use_dictionary=False, compression="none")
    spoil(tmp_path / "in.parquet")
    before = everywhere(tmp_path)
    with pytest.raises(UnreadableInput):
        table.append_file(tmp_path / "in.parquet", adopt="link")
    assert everywhere(tmp_path) == before


def test_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    class Kms(pe.KmsClient):  # type: ignore[misc]  # pyarrow has no types
        """Keys that are no secret."""

        def wrap_key(self, key_bytes: bytes, _master: str) -> bytes:
            return bytes(key_bytes).hex().encode()

        def unwrap_key(self, wrapped: bytes, _master: str) -> bytes:
            return bytes.fromhex(wrapped.decode())

    factory = pe.CryptoFactory(lambda _config: Kms())
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h")
    for plaintext in (False, True):
        secret = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["x"]}, plaintext_footer=plaintext)
        properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), secret)
        data = rows(x=pa.array([1, 2]))
        with pq.ParquetWriter(tmp_path / "in.parquet", data.schema, encryption_properties=properties) as writer:
            writer.write_table(data)
        with pytest.raises(GaplessError) as refused:
            table.append_file(tmp_path / "in.parquet", adopt="copy")
        assert isinstance(refused.value, UnreadableInput)
    assert not (tmp_path / "t" / "data").exists()
