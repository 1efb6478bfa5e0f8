"""Commits as bytes: round trips, strict JSON, bytes that never change, and what damage says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.formats.timeseries.actions import AddSegment, Commit, RemoveSegment, SetTransaction, TableMeta, UpdateTableMeta
from gapless.formats.timeseries.codec.commit import decode_commit, encode_commit
from gapless.formats.timeseries.codec.json_values import seal
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.model.index import (
    ENTITY_TYPES,
    EntityType,
    FixedWidth,
    Identity,
    IndexSpec,
    IndexType,
    IntWidth,
    LocalDays,
    Months,
)
from gapless.model.operation import JobId, SequenceId, Tally
from gapless.model.properties import OVERLAP_POLICIES, OnOverlap, Properties
from gapless.model.segment import Bounds, InlineCoverage, Segment, SidecarCoverage
from gapless.model.stats import ColumnStats

PATH = "_timeseries_log/0000000002.json"
NS = 10**9

texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda n: n not in (".", "..")
)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
instants = st.integers(-5_000 * 366 * 86_400 * NS, 250_000 * 366 * 86_400 * NS)
counts = st.integers(0, 2**63 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[EntityType, st.SearchStrategy[Any]] = {
    "utf8": texts, "int8": st.integers(-128, 127), "int16": st.integers(-(2**15), 2**15 - 1), "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": int64, "uint8": st.integers(0, 255), "uint16": st.integers(0, 2**16 - 1), "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1), "date": st.dates(), "bool": st.booleans(),
}  # fmt: skip
bounds_of: dict[IndexType, st.SearchStrategy[int]] = {
    "timestamp": instants,
    "int64": int64,
    "uint64": st.integers(0, 2**64 - 1),
}
stats_bounds = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    texts,
    st.binary(max_size=8),
    st.decimals(allow_nan=False, allow_infinity=False),
)
stats = st.builds(
    ColumnStats,
    min=st.none() | stats_bounds,
    max=st.none() | stats_bounds,
    nulls=st.none() | counts,
    nans=st.none() | counts,
)
coverages = st.one_of(
    st.none(),
    st.binary(max_size=30).map(InlineCoverage),
    st.builds(SidecarCoverage, paths, st.none() | names, st.none() | names),
)
OTHERS = [
    [pa.field("v", pa.int8())],
    [pa.field("é\n//", pa.list_(pa.decimal128(9, 2)), metadata={"unit": "x"}), pa.field("late//", pa.null())],
]


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    kinds: st.SearchStrategy[EntityType] = st.sampled_from(ENTITY_TYPES)
    types = draw(st.lists(kinds, max_size=3))
    identity: Identity | None = tuple(draw(VALUES[kind]) for kind in types)
    several = draw(st.booleans())
    if types and several:
        identity, types = None, []
    index_type: IndexType = draw(st.sampled_from(list(bounds_of)))
    first, last = sorted(draw(st.tuples(*[bounds_of[index_type]] * 2)))
    return Segment(
        path=draw(paths),
        rows=draw(st.integers(0, 2**63 - 1)),
        size=draw(st.none() | st.integers(0, 2**63 - 1)),
        bounds=Bounds(first=first, last=last),
        index_type=index_type,
        identity=identity,
        identity_types=tuple(types),
        coverage=draw(coverages),
        stats=draw(st.dictionaries(texts, stats, max_size=3)),
        checksum=draw(st.none() | names),
        footer_checksum=draw(st.none() | names),
        sorted_by=tuple(draw(st.lists(texts, max_size=2))),
        data_change=draw(st.booleans()),
    )


@st.composite
def indexes(draw: st.DrawFn) -> IndexSpec:
    column, *entity = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    kind: IndexType = draw(st.sampled_from(list(bounds_of)))
    zone = draw(st.sampled_from([None, "UTC", "Asia/Tokyo"])) if kind == "timestamp" else None
    count = draw(st.integers(1, 2**32 + 1))
    buckets: list[Any] = [
        FixedWidth(count),
        FixedWidth(count * NS),
        FixedWidth(86_400 * NS * (count % 2**32 or 1)),
        Months(count, zone),
    ]
    if zone is not None:
        buckets.append(LocalDays(count, zone))
    bucket = draw(st.sampled_from(buckets)) if kind == "timestamp" else IntWidth(draw(st.integers(1, 2**63 - 1)))
    return IndexSpec(column=column, type=kind, bucket=bucket, entity=tuple(entity), timezone=zone)


@st.composite
def schemas(draw: st.DrawFn, index: IndexSpec) -> pa.Schema | None:
    kinds = (
        [pa.timestamp("s", "Europe/Paris"), pa.timestamp("ns")]
        if index.type == "timestamp"
        else [pa.type_for_alias(index.type)]
    )
    entity = st.sampled_from([pa.string(), pa.int8(), pa.uint64(), pa.date32(), pa.bool_()])
    keys = [
        pa.field(index.column, draw(st.sampled_from(kinds)), nullable=False),
        *(pa.field(name, draw(entity)) for name in index.entity),
    ]
    others = [field for field in draw(st.sampled_from(OTHERS)) if field.name not in (index.column, *index.entity)]
    fields = draw(st.permutations([*keys, *others]))
    return draw(st.sampled_from([None, pa.schema(fields), pa.schema(fields, metadata={b"\xff": b"1", b"a": b"b"})]))


@st.composite
def metas(draw: st.DrawFn) -> TableMeta:
    index = draw(indexes())
    known = ["schema_add_columns", "schema_metadata", "gapless_types", "gapless_buckets", "gapless_columns"]
    policies: st.SearchStrategy[OnOverlap] = st.sampled_from(OVERLAP_POLICIES)
    return TableMeta(
        index=index,
        schema=draw(schemas(index)),
        created_ns=draw(instants),
        properties=Properties(on_overlap=draw(policies), codec="none", checkpoint_interval=draw(st.integers(0, 9))),
        reader_features=draw(st.frozensets(st.sampled_from(known))),
        writer_features=draw(st.frozensets(names, max_size=2)),
    )


tallies = st.builds(Tally, rows=st.integers(0), segments=st.integers(0), buckets=st.integers(0))
operations = st.one_of(st.builds(JobId, texts), st.builds(SequenceId, texts, st.integers(0, 2**63 - 1)))
actions = st.one_of(
    metas().map(UpdateTableMeta),
    segments().map(AddSegment),
    paths.map(RemoveSegment),
    st.builds(SetTransaction, operations, tallies),
)
parameters = st.dictionaries(texts, st.one_of(st.none(), st.booleans(), int64, texts, st.lists(texts, max_size=2)), max_size=2)
commits = st.builds(
    Commit,
    id=texts,
    operation=texts.filter(bool),
    engine=texts,
    parameters=parameters,
    actions=st.lists(actions, max_size=4).map(tuple),
)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@given(commits, st.integers(1, 10**10 - 1), instants)
def test_stat_03_every_commit_is_strict_json_and_comes_back_as_it_was(commit: Commit, version: int, time_ns: int) -> None:
    data = encode_commit(commit, version, time_ns)
    envelope = json.loads(data, parse_constant=refuse)
    assert (envelope["version"], envelope["base_version"]) == (version, version - 1)
    assert b"\n" not in data
    assert decode_commit(data, version, PATH) == (commit, time_ns)
    assert encode_commit(commit, version, time_ns) == data


@given(metas())
def test_a_decoded_schema_is_written_again_byte_by_byte(meta: TableMeta) -> None:
    """Protocol 7 refuses a log that changes anything in a column it knows."""
    commit = Commit(id="c", operation="append", actions=(UpdateTableMeta(meta),))
    data = encode_commit(commit, 2, 0)
    again, _ = decode_commit(data, 2, PATH)
    assert encode_commit(again, 2, 0) == data


@pytest.mark.parametrize(
    ("column", "bound", "said"),
    [
        ("inf", float("inf"), {"float": "inf"}),
        ("-inf", float("-inf"), {"float": "-inf"}),
        ("-0.0", -0.0, -0.0),
        ("smallest", 5e-324, 5e-324),
        ("bytes", b"\xe2", {"bytes": "e2"}),
        ("decimal", Decimal("1.10"), {"decimal": "1.10"}),
        ("big", 2**64 - 1, 18_446_744_073_709_551_615),
    ],
)
def test_stat_03_bounds_that_json_has_no_number_for(column: str, bound: Any, said: object) -> None:
    segment = segment_of(stats={column: ColumnStats(min=bound, max=bound)})
    commit = Commit(id="c", operation="append", actions=(AddSegment(segment),))
    data = encode_commit(commit, 2, 0)
    body = json.loads(data, parse_constant=refuse)["actions"][0]["AddSegment"]["stats"][column]
    assert repr(body["min"]) == repr(said)
    (back,) = decode_commit(data, 2, PATH)[0].added
    assert repr(back.stats[column].max) == repr(bound)


def segment_of(**changes: Any) -> Segment:
    given: dict[str, Any] = {
        "path": "data/a-0_0-0-0_20240101000000000.parquet", "rows": 2, "size": 1_102, "bounds": Bounds(first=0, last=3_600 * NS),
        "identity": (), "coverage": InlineCoverage(bytes(8)),
    }  # fmt: skip
    return Segment(**given | changes)


INDEX = IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(900 * NS), entity=("sym", "day"), timezone="UTC")
SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("s", "Europe/Paris"), nullable=False),
        pa.field("sym", pa.string(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("v", pa.int8()),
    ]
)
META = TableMeta(index=INDEX, schema=SCHEMA, created_ns=1_704_067_200 * NS + 1, properties=Properties(on_overlap="skip"))
GOLDEN_COMMIT = Commit(
    id="01J",
    operation="append",
    engine="gapless/0.1.0",
    parameters={"on_overlap": "skip"},
    actions=(
        UpdateTableMeta(META),
        AddSegment(
            segment_of(
                identity=("Ü", date(2024, 1, 1)),
                identity_types=("utf8", "date"),
                coverage=SidecarCoverage("_coverage/segments/a.roar", "xxh3-128:00"),
                stats={"v": ColumnStats(min=-1, max=float("inf"), nulls=0)},
                checksum="xxh3-128:01",
                footer_checksum="xxh3-128:730:02",
                sorted_by=("sym", "day", "ts"),
            )
        ),
        RemoveSegment("data/b.parquet"),
        SetTransaction(SequenceId("app", 7), Tally(rows=2, segments=1, buckets=1)),
    ),
)
GOLDEN_BYTES = (
    '{"version":2,"base_version":1,"timestamp":"2024-01-01T00:00:01.000002Z","commit_id":"01J","operation":"append",'
    '"engine":"gapless/0.1.0","parameters":{"on_overlap":"skip"},"actions":['
    '{"UpdateTableMeta":{"kind":{"TimeSeries":{"column":"ts","entity_columns":["sym","day"],'
    '"kind":{"type":"timestamp","index_granularity":{"Minutes":15},"timezone":"UTC"}}},'
    '"logical_schema":{"columns":['
    '{"name":"ts","data_type":{"Timestamp":{"unit":"Micros","timezone":"UTC"}},"nullable":false,"gapless_type":"timestamp[s, tz=Europe/Paris]"},'
    '{"name":"sym","data_type":"Utf8","nullable":false},{"name":"day","data_type":"Int64","nullable":false,"gapless_type":"date32"},'
    '{"name":"v","data_type":"Int32","nullable":true,"gapless_type":"int8"}]},'
    '"created_at":"2024-01-01T00:00:00.000000001Z","protocol_version":7,"required_reader_features":[],"required_writer_features":[],'
    '"properties":{"on_overlap":"skip"}}},'
    '{"AddSegment":{"path":"data/a-0_0-0-0_20240101000000000.parquet","format":"parquet",'
    '"entity_layout":{"Single":[{"type":"utf8","value":"Ü"},{"type":"int32","value":19723}]},'
    '"index_min":{"type":"timestamp","value":"1970-01-01T00:00:00Z"},"index_max":{"type":"timestamp","value":"1970-01-01T01:00:00Z"},'
    '"row_count":2,"file_size":1102,"coverage_path":"_coverage/segments/a.roar","coverage_checksum":"xxh3-128:00",'
    '"identity":{"types":["utf8","date"]},"checksum":"xxh3-128:01","footer_checksum":"xxh3-128:730:02","sorted_by":["sym","day","ts"],'
    '"stats":{"v":{"min":-1,"max":{"float":"inf"},"nulls":0}}}},'
    '{"RemoveSegment":{"path":"data/b.parquet"}},'
    '{"SetTransaction":{"app_id":"app","sequence":7,"report":'
    '{"rows":2,"segments":1,"buckets":1,"skipped_rows":0,"skipped_buckets":0}}}],"checksum":"xxh3-128:31beee8e8a8ca19febd25a24dac91f96"}'
).encode()  # fmt: skip


def test_the_bytes_of_a_commit_do_not_change_from_release_to_release() -> None:
    assert encode_commit(GOLDEN_COMMIT, 2, (1_704_067_201 * 10**6 + 2) * 1_000) == GOLDEN_BYTES
    assert decode_commit(GOLDEN_BYTES, 2, PATH) == (GOLDEN_COMMIT, (1_704_067_201 * 10**6 + 2) * 1_000)


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The golden commit as JSON, changed in place by `change(envelope)` and sealed again."""
    envelope = json.loads(GOLDEN_BYTES)
    del envelope["checksum"]
    change(envelope)
    return seal(json.dumps(envelope).encode())


def meta_of(envelope: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = envelope["actions"][0]["UpdateTableMeta"]
    return body


def added_of(envelope: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = envelope["actions"][1]["AddSegment"]
    return body


def test_what_is_not_known_is_passed_over() -> None:
    def change(envelope: dict[str, Any]) -> None:
        envelope["weather"] = {"is": "fine"}
        envelope["actions"].insert(1, {"Frobnicate": {"path": "../.."}})
        added_of({"actions": [None, envelope["actions"][2]]})["colour"] = 1
        meta_of(envelope)["colour"] = 1

    commit, _ = decode_commit(changed(change), 2, PATH)
    assert commit == GOLDEN_COMMIT


def test_one_flipped_bit_is_found_wherever_it_is() -> None:
    for place in range(len(GOLDEN_BYTES)):
        damaged = bytearray(GOLDEN_BYTES)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(CorruptTable, match=PATH):
            decode_commit(bytes(damaged), 2, PATH)


def test_a_commit_of_ours_without_its_checksum_is_corrupt_and_another_writers_is_not() -> None:
    envelope = json.loads(GOLDEN_BYTES)
    del envelope["checksum"]
    with pytest.raises(CorruptTable, match="checksum"):
        decode_commit(json.dumps(envelope).encode(), 2, PATH)
    for key in ("commit_id", "operation", "engine", "parameters"):
        del envelope[key]
    commit, _ = decode_commit(json.dumps(envelope).encode(), 2, PATH)
    assert (commit.id, commit.operation, commit.engine, commit.actions) == (
        "",
        "rewrite",
        "timeseries-table-format",
        GOLDEN_COMMIT.actions,
    )


NO_PATHS: list[object] = ["../x", "/etc/passwd", "a/../../b", "./a", "a//b", "", ".", "..", "a/", "a\0b", None, 5, ["a"], {}]


@pytest.mark.parametrize("path", NO_PATHS, ids=repr)
@pytest.mark.parametrize("place", ["segment", "coverage", "removal"])
def test_a_path_that_is_none_under_the_root_is_corrupt(place: str, path: object) -> None:
    def change(envelope: dict[str, Any]) -> None:
        if place == "segment":
            added_of(envelope)["path"] = path
        elif place == "coverage":
            added_of(envelope)["coverage_path"] = path
        else:
            envelope["actions"][2]["RemoveSegment"]["path"] = path

    if place == "coverage" and path is None:
        assert decode_commit(changed(change), 2, PATH)[0].added[0].coverage is None
        return
    with pytest.raises(CorruptTable):
        decode_commit(changed(change), 2, PATH)


CORRUPT: dict[str, Callable[[dict[str, Any]], object]] = {
    "another version": lambda e: e.update(version=3),
    "a version of True": lambda e: e.update(version=True),
    "no version": lambda e: e.pop("version"),
    "no actions": lambda e: e.pop("actions"),
    "an action with two names": lambda e: e["actions"][0].update(AddSegment={}),
    "an action with no name": lambda e: e["actions"].append({}),
    "no time": lambda e: e.pop("timestamp"),
    "a time that is none": lambda e: e.update(timestamp="2024-02-30T00:00:00Z"),
    "another format of segments": lambda e: added_of(e).update(format="orc"),
    "rows below zero": lambda e: added_of(e).update(row_count=-1),
    "rows of a fraction": lambda e: added_of(e).update(row_count=1.5),
    "rows without bounds": lambda e: added_of(e).update(row_count=10**400),
    "an infinite size": lambda e: added_of(e).update(file_size=float("1e308") * 10),
    "a bound past int64": lambda e: added_of(e).update(index_min={"type": "int64", "value": 2**63}),
    "a bound below uint64": lambda e: added_of(e).update(index_min={"type": "u_int64", "value": -1}),
    "a bound of no kind": lambda e: added_of(e).update(index_min={"type": "uint64", "value": 1}),
    "an identity too short": lambda e: added_of(e)["entity_layout"]["Single"].pop(),
    "an identity of no type": lambda e: added_of(e)["identity"].update(types=["utf8", "complex"]),
    "a day no calendar has": lambda e: added_of(e)["entity_layout"]["Single"][1].update(value=10**9),
    "coverage that is no base64": lambda e: added_of(e).update(coverage="$$$"),
    "a decimal that is none": lambda e: added_of(e)["stats"].update(v={"min": {"decimal": "1x"}}),
    "a bucket of no width": lambda e: meta_of(e).update(bucket={"width": "0h", "local": False}),
    "an index named as an entity": lambda e: meta_of(e)["kind"]["TimeSeries"].update(column="sym"),
    "two columns of one name": lambda e: meta_of(e)["logical_schema"]["columns"].append(
        meta_of(e)["logical_schema"]["columns"][0]
    ),
    "a column without a place": lambda e: meta_of(e)["logical_schema"]["columns"][3].update(position="first"),
    "no index column": lambda e: meta_of(e)["logical_schema"]["columns"].pop(0),
    "no entity column": lambda e: meta_of(e)["logical_schema"]["columns"].pop(1),
    "an index that is no time": lambda e: meta_of(e)["logical_schema"]["columns"].__setitem__(
        0, {"name": "ts", "data_type": "Utf8", "nullable": False}
    ),
    "an entity of no type for one": lambda e: meta_of(e)["logical_schema"]["columns"][1].update(data_type="Float64"),
    "nulls below zero": lambda e: added_of(e)["stats"].update(v={"nulls": -1}),
    "a checksum that is no text": lambda e: added_of(e).update(checksum=True),
    "nullable by hearsay": lambda e: meta_of(e)["logical_schema"]["columns"][3].update(nullable="yes"),
}


@pytest.mark.parametrize("damage", CORRUPT)
def test_damage_is_a_typed_error_that_names_the_file(damage: str) -> None:
    with pytest.raises(CorruptTable) as refused:
        decode_commit(changed(CORRUPT[damage]), 2, PATH)
    assert "0000000002.json" in str(refused.value)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"version":NaN}', b"\0" * 300]
)
def test_what_is_no_commit_at_all_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptTable, match=PATH) as refused:
        decode_commit(data, 2, PATH)
    assert refused.value.path == PATH
    assert ("It is empty" in refused.value.why) == (data == b"")


UNSUPPORTED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "protocol 8": (lambda e: meta_of(e).update(protocol_version=8), "protocol_version 8"),
    "no protocol": (lambda e: meta_of(e).pop("protocol_version"), "protocol_version None"),
    "release 0.1": (lambda e: meta_of(e).update(format_version=1), "format_version 1"),
    "a feature": (lambda e: meta_of(e).update(required_reader_features=["time_travel"]), "time_travel"),
    "a property": (lambda e: meta_of(e).update(properties={"colour": "red"}), "colour"),
    "an index of days": (lambda e: meta_of(e)["kind"]["TimeSeries"]["kind"].update(type="date"), "date"),
    "a type": (lambda e: meta_of(e)["logical_schema"]["columns"][3].update(data_type="Int128"), "Int128"),
}


@pytest.mark.parametrize("wish", UNSUPPORTED)
def test_what_this_release_does_not_know_is_said_by_name(wish: str) -> None:
    change, needs = UNSUPPORTED[wish]
    with pytest.raises(UnsupportedTable) as refused:
        decode_commit(changed(change), 2, PATH)
    assert refused.value.needs.endswith(needs)


def test_features_are_claimed_once_and_kept() -> None:
    index = IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(NS))
    late = pa.schema([pa.field("ts", pa.timestamp("s")), pa.field("v", pa.int8()), pa.field("late", pa.null())])
    first = with_features(TableMeta(index=index, schema=late, created_ns=0, writer_features=frozenset({"other"})))
    assert first.writer_features == {"gapless", "other"}
    assert first.reader_features == frozenset()
    settled = TableMeta(
        index=index, schema=late.set(2, pa.field("late", pa.float16())), created_ns=0, logical=first.logical, reader_features=frozenset({"x"})
    )  # fmt: skip
    assert with_features(settled).reader_features == {"x", "schema_add_columns", "gapless_types"}
