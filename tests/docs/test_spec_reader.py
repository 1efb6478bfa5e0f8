"""A reader that knows docs/spec/timeseries.md and nothing of gapless, and what gapless says of the same tables."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from pyroaring import BitMap64

ROOT = Path(__file__).resolve().parents[2]
KNOWN_FEATURES = {
    "gapless_types", "gapless_buckets", "gapless_columns", "gapless_inline", "schema_add_columns", "schema_metadata",
}  # fmt: skip
Identity = tuple[Any, ...]


# -- the reader: imports nothing of gapless --------------------------------------------------------------------------


class Reader:
    """One table, at its newest version."""

    def __init__(self, root: Path, *, use_checkpoints: bool) -> None:
        self.root = root
        self.meta: dict[str, Any] = {}
        self.live: dict[str, dict[str, Any]] = {}
        self.version = self._read_newest_checkpoint() if use_checkpoints else 0
        while (path := root / f"_timeseries_log/{self.version + 1:010d}.json").is_file():
            self.version += 1
            self._apply(read_commit(path, self.version))
        hint = (root / "_timeseries_log/CURRENT").read_text().strip()
        assert int(hint) <= self.version, "a commit was lost"

    def _apply(self, commit: dict[str, Any]) -> None:
        for action in commit["actions"]:
            ((name, body),) = action.items()
            if name == "UpdateTableMeta":
                self._take_meta(body)
            elif name == "AddSegment":
                self.live[body["path"]] = body
            elif name == "RemoveSegment":
                self.live.pop(body["path"], None)

    def _take_meta(self, body: dict[str, Any]) -> None:
        assert body["protocol_version"] == 7
        assert "format_version" not in body
        assert set(body["required_reader_features"]) <= KNOWN_FEATURES
        self.meta = body

    def _read_newest_checkpoint(self) -> int:
        paths = sorted((self.root / "_timeseries_log").glob("*.checkpoint.parquet"))
        if not paths:
            return 0
        table = pq.read_table(paths[-1])
        about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        assert about["gapless.checkpoint"] == "1"
        text = f"{about['gapless.version']} {about['gapless.time_ns']}\n"
        for row in table.to_pylist():
            text += f"{row['action']} {row['version']} {row['time_ns']} {row['body']}\n"
            if row["action"] == "meta":
                self._take_meta(json.loads(row["body"]))
            elif row["action"] == "segment":
                body = json.loads(row["body"])
                self.live[body["path"]] = body
        assert about["gapless.checksum"] == digest(text.encode())
        return int(about["gapless.version"])

    @property
    def index(self) -> dict[str, Any]:
        found: dict[str, Any] = self.meta["kind"]["TimeSeries"]
        return found

    def fields(self) -> list[dict[str, Any]]:
        schema = self.meta["logical_schema"]
        found = [column for column in schema["columns"] if "position" not in column]
        late = [c for c in schema["columns"] if "position" in c] + schema.get("pending", [])
        for column in sorted(late, key=lambda c: c["position"]):
            found.insert(column["position"], column)
        return found

    def columns(self) -> list[str]:
        return [column["name"] for column in self.fields()]

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for path, segment in self.live.items():
            data = base64.b64decode(segment["data"]) if "data" in segment else (self.root / path).read_bytes()
            assert len(data) == segment["file_size"]
            assert digest(data) == segment["checksum"]
            length, tail = segment["footer_checksum"].split(":")[1:]
            assert digest(data[-int(length) :]) == f"xxh3-128:{tail}"
            table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
            assert table.num_rows == segment["row_count"]
            found += [{column["name"]: value_in(row, column) for column in self.fields()} for row in table.to_pylist()]
        return found

    def coverage(self) -> dict[Identity, set[int]]:
        covered: dict[Identity, set[int]] = {}
        for segment in self.live.values():
            if "coverage" in segment:
                data = base64.b64decode(segment["coverage"], validate=True)
            else:
                data = (self.root / segment["coverage_path"]).read_bytes()
                assert digest(data) == segment["coverage_checksum"]
            for identity, stored in read_coverage(data, has_entities=bool(self.index["entity_columns"])):
                covered.setdefault(identity, set()).update(stored)
        return covered


def value_in(holder: dict[str, Any], column: dict[str, Any]) -> Any:
    """What a row of a file, or a struct in one, has of a column or nested field."""
    stored = column.get("gapless_stored", column["name"])
    if stored not in holder:
        default = column.get("gapless_default")
        return Decimal(default["decimal"]) if isinstance(default, dict) else default
    return nested(holder[stored], column.get("data_type"))


def nested(value: Any, data_type: Any) -> Any:
    match data_type:
        case _ if value is None:
            return None
        case {"Struct": {"fields": fields}}:
            return {field["name"]: value_in(value, field) for field in fields}
        case {"List": {"elements": element}}:
            return [nested(one, element["data_type"]) for one in value]
        case {"Map": {"value": field}}:
            return [(key, nested(one, field["data_type"])) for key, one in value]
    return value


def digest(data: bytes) -> str:
    return f"xxh3-128:{xxhash.xxh3_128_hexdigest(data)}"


def read_commit(path: Path, version: int) -> dict[str, Any]:
    data = path.read_bytes()
    commit: dict[str, Any] = json.loads(data)
    assert commit["version"] == version
    if "commit_id" in commit:
        assert commit["checksum"] == digest(data[: data.rindex(b',"checksum":')])
    return commit


def read_coverage(data: bytes, *, has_entities: bool) -> Iterator[tuple[Identity, list[int]]]:
    if not has_entities:
        yield (), list(BitMap64.deserialize(data))
        return
    assert data[:8] == b"TSTECOV2"
    at = 12
    for _ in range(*struct.unpack_from(">I", data, 8)):
        (count,) = struct.unpack_from(">I", data, at)
        at += 4
        values: list[Any] = []
        for _ in range(count):
            tag, at = data[at], at + 1
            form = {1: ">Q", 2: ">i", 3: ">q", 4: ">Q"}[tag]
            (number,) = struct.unpack_from(form, data, at)
            at += struct.calcsize(form)
            values.append(data[at : at + number].decode() if tag == 1 else number)
            at += number if tag == 1 else 0
        (length,) = struct.unpack_from(">Q", data, at)
        yield tuple(values), list(BitMap64.deserialize(data[at + 8 : at + 8 + length]))
        at += 8 + length
    assert at == len(data)


# -- what gapless says -------------------------------------------------------------------------------------------------


def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def both(root: Path, *, use_checkpoints: bool = False) -> tuple[Reader, Any]:
    import gapless as gl

    return Reader(root, use_checkpoints=use_checkpoints), gl.open(root)


def times(*hours: float) -> list[datetime]:
    return [datetime(2026, 1, 5) + timedelta(hours=hour) for hour in hours]


def test_rows_coverage_and_schema_of_a_table_with_entities(tmp_path: Path) -> None:
    import gapless as gl

    table = gl.create(tmp_path / "a b%", index="ts", entity=["site", "day"], bucket="1h")
    days = [date(2026, 1, 5), date(1969, 12, 31)]
    table.append({"ts": times(0, 1.5), "site": ["nörd", "s"], "day": days, "x": [1.5, None], "late": [None, None]})
    table.append({"late": ["now"], "ts": times(30), "site": ["s"], "day": days[:1], "x": [2.0]})
    reader, table = both(tmp_path / "a b%")
    assert reader.version == table.version == 3
    assert reader.columns() == table.schema.names
    assert sorted_rows(reader.rows()) == sorted_rows(table.scan().to_arrow().to_pylist())
    epoch = date(1970, 1, 1)
    wanted = {
        (site, (day - epoch).days): {(int(b.start.replace(tzinfo=UTC).timestamp()) // 3600) ^ (1 << 63)}
        for b in table.coverage().buckets()
        for site, day in [b.identity]
    }
    assert {identity: {x % (1 << 64) for x in ids} for identity, ids in wanted.items()} == {
        identity: stored for identity, stored in reader.coverage().items() if len(stored) == 1
    }
    assert sum(map(len, reader.coverage().values())) == len(table.coverage().buckets()) == 3


def test_an_integer_index_without_entities(tmp_path: Path) -> None:
    import gapless as gl

    gl.create(tmp_path / "t", index="n", index_type="int64", bucket=10).append({"n": [-11, -1, 0, 25], "v": list("abcd")})
    reader, table = both(tmp_path / "t")
    assert sorted_rows(reader.rows()) == sorted_rows(table.scan().to_arrow().to_pylist())
    stored = [b.start // 10 + (1 << 63) for b in table.coverage().buckets()]
    assert reader.coverage() == {(): set(stored)}
    assert stored[0] == (1 << 63) - 2


def test_local_days_and_a_coverage_that_lies_beside_the_log(tmp_path: Path) -> None:
    import gapless as gl

    table = gl.create(tmp_path / "t", index="ts", entity=["s"], bucket="1d", timezone="America/New_York")
    names = [f"series {number}" for number in range(300)]
    table.append({"ts": [datetime(2026, 3, 8, 23, 30)] * 300, "s": names})
    reader, table = both(tmp_path / "t")
    assert all("coverage_path" in segment for segment in reader.live.values())
    assert reader.meta["bucket"] == {"width": "1d", "local": True}
    day = (date(2026, 3, 8) - date(1970, 1, 1)).days + (1 << 63)
    assert reader.coverage() == {(name,): {day} for name in names}
    assert [b.identity for b in table.coverage().buckets()] == sorted((name,) for name in names)


def test_a_log_checkpoint_says_what_the_commits_say(tmp_path: Path) -> None:
    import gapless as gl

    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"checkpoint_interval": 3})
    for hour in range(6):
        table.append({"ts": times(hour), "x": [hour]})
    assert list((tmp_path / "t/_timeseries_log").glob("*.checkpoint.parquet"))
    slow, quick = Reader(tmp_path / "t", use_checkpoints=False), Reader(tmp_path / "t", use_checkpoints=True)
    assert (quick.version, quick.meta, quick.live) == (slow.version, slow.meta, slow.live)
    assert slow.version == 7


@pytest.mark.parametrize("use_checkpoints", [False, True])
def test_rows_that_lie_in_commits(tmp_path: Path, use_checkpoints: bool) -> None:
    import gapless as gl

    properties = {"inline_bytes": 2_000, "checkpoint_interval": 3}
    table = gl.create(tmp_path / "t", index="ts", entity=["s"], bucket="1h", properties=properties)
    for hour in range(4):
        table.append({"ts": times(hour), "s": ["ab"[hour % 2]], "x": [hour]})
    table.append({"ts": times(*range(10, 400)), "s": ["c"] * 390, "x": range(390)})
    reader, table = both(tmp_path / "t", use_checkpoints=use_checkpoints)
    assert [("data" in segment) for segment in reader.live.values()] == [True] * 4 + [False]
    assert not [path for path, segment in reader.live.items() if "data" in segment and (tmp_path / "t" / path).exists()]
    assert sorted_rows(reader.rows()) == sorted_rows(table.scan().to_arrow().to_pylist())
    assert sum(map(len, reader.coverage().values())) == 394


def test_columns_that_changed_are_found_by_their_stored_names(tmp_path: Path) -> None:
    import gapless as gl

    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"checkpoint_interval": 5})
    table.append({"ts": times(0), "a": [1], "b": ["old"], "s": [{"x": 1}], "l": [[{"x": 1}, None]]})
    table.rename_column("a", "c")
    table.drop_column("b")
    table.add_column("b", pa.string(), default="new", after="ts")
    table.add_column("a", pa.decimal128(9, 2), default=Decimal("1.50"))
    table.add_column("s.y", pa.int64(), default=7)
    table.rename_column("l.element.x", "z")
    table.add_column("l.element.x", pa.int64())
    table.append({"ts": times(1), "c": [2], "s": [{"x": 2}], "l": [[{"z": 2, "x": 3}]]})
    for use_checkpoints in (False, True):
        reader, table = both(tmp_path / "t", use_checkpoints=use_checkpoints)
        assert reader.columns() == table.schema.names
        assert sorted_rows(reader.rows()) == sorted_rows(table.scan().to_arrow().to_pylist())
    assert "gapless_columns" in reader.meta["required_reader_features"]


def test_columns_that_were_added_stand_in_their_place(tmp_path: Path) -> None:
    import gapless as gl

    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append({"ts": times(0), "a": [1]})
    table.add_column("z", pa.int64(), after="ts")
    table.add_column("y", pa.int64(), after="ts")
    table.append({"ts": times(1), "y": [3]})
    reader, table = both(tmp_path / "t")
    assert reader.columns() == table.schema.names == ["ts", "y", "z", "a"]
    assert sorted_rows(reader.rows()) == sorted_rows(table.scan().to_arrow().to_pylist())
    assert reader.meta["required_reader_features"] == ["schema_add_columns"]


def test_a_flipped_bit_in_a_commit_is_seen_by_the_reader_too(tmp_path: Path) -> None:
    import gapless as gl

    gl.create(tmp_path / "t", index="ts", bucket="1h").append({"ts": times(0), "x": [1]})
    path = tmp_path / "t/_timeseries_log/0000000002.json"
    path.write_bytes(path.read_bytes().replace(b'"row_count":1', b'"row_count":9'))
    with pytest.raises(AssertionError):
        Reader(tmp_path / "t", use_checkpoints=False)


def shape(value: object) -> object:
    """An object's keys at every depth."""
    if isinstance(value, dict):
        return {key: shape(child) for key, child in value.items()}
    return [shape(child) for child in value] if isinstance(value, list) else type(value).__name__


def test_the_example_in_the_spec_has_the_shape_of_a_real_commit(tmp_path: Path) -> None:
    import gapless as gl

    table = gl.create(tmp_path / "t", index="ts", entity=["site"], bucket="1h")
    table.append({"ts": times(0, 1), "site": ["north"] * 2, "ppm": [412.0, None]}, operation_id=("loader", 7))
    real = json.loads((tmp_path / "t/_timeseries_log/0000000002.json").read_bytes())
    page = (ROOT / "docs/spec/timeseries.md").read_text(encoding="utf-8")
    shown = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    example = json.loads(shown[1])
    assert shape(example) == shape(real)
    compact = json.dumps(example, ensure_ascii=False, separators=(",", ":")).encode()
    assert example["checksum"] == digest(compact[: compact.rindex(b',"checksum":')])
    coverage = base64.b64decode(example["actions"][1]["AddSegment"]["coverage"])
    assert [identity for identity, _ in read_coverage(coverage, has_entities=True)] == [("north",)]


def test_every_key_of_the_log_and_every_property_is_on_the_page() -> None:
    from gapless.formats.timeseries.codec.metadata import READER_FEATURES, WRITER_FEATURES
    from gapless.model.properties import Properties

    page = (ROOT / "docs/spec/timeseries.md").read_text(encoding="utf-8")
    names = {*READER_FEATURES, *WRITER_FEATURES, *Properties.__dataclass_fields__}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
