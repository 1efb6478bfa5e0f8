"""Commits of a Delta log as JSON lines, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from deltalake import DeltaTable as DeltaLakeTable
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import CorruptTable, TableError, UnsupportedTable
from gapless.formats.delta.actions import (
    Action,
    AddFile,
    CdcFile,
    Commit,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
)
from gapless.formats.delta.commit_codec import ENABLEMENT_TIME, ENABLEMENT_VERSION, opened
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.schema.types import PrimitiveType, StructField, StructType
from gapless.model.operation import JobId, SequenceId, Tally
from support.delta_strategies import schemas, texts

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden" / "delta"
SCHEMA = StructType(fields=(StructField(name="id", type=PrimitiveType("long")),))
MS = 1_000_000

counts = st.integers(0, 2**62)
maybe_count = st.none() | counts
maps = st.dictionaries(texts, st.none() | texts, max_size=2)
tags = st.none() | st.dictionaries(texts, texts, max_size=2)
vectors = st.none() | st.builds(
    DeletionVector, storage=st.sampled_from("uip"), path_or_inline=texts, offset=maybe_count, size=counts, cardinality=counts
)
adds = st.builds(
    AddFile,
    path=texts,
    partition_values=maps,
    size=counts,
    modified_ms=counts,
    data_change=st.booleans(),
    stats=st.none() | texts,
    tags=tags,
    deletion_vector=vectors,
    base_row_id=maybe_count,
    default_row_commit_version=maybe_count,
    clustering_provider=st.none() | texts,
)
removes = st.builds(
    RemoveFile,
    path=texts,
    deleted_ms=maybe_count,
    data_change=st.booleans(),
    partition_values=st.none() | maps,
    size=maybe_count,
    stats=st.none() | texts,
    tags=tags,
    deletion_vector=vectors,
    base_row_id=maybe_count,
    default_row_commit_version=maybe_count,
)
features = st.frozensets(st.sampled_from(("deletionVectors", "columnMapping", "x")), max_size=2)
others = st.one_of(
    st.builds(CdcFile, path=texts, partition_values=maps, size=counts, tags=tags),
    st.builds(Txn, app_id=texts, version=st.integers(-(2**62), 2**62), updated_ms=maybe_count),
    st.builds(DomainMetadata, domain=texts, configuration=texts, removed=st.booleans()),
    st.builds(Protocol, reader=st.just(3), writer=st.just(7), reader_features=features, writer_features=features),
    st.builds(Protocol, reader=st.integers(1, 2), writer=st.integers(1, 6)),
    st.builds(
        Metadata,
        id=texts,
        name=st.none() | texts,
        description=st.none() | texts,
        schema=schemas,
        partition_by=st.lists(texts, max_size=2).map(tuple),
        configuration=st.dictionaries(texts, texts, max_size=2),
        created_ms=maybe_count,
    ),
)
operations = st.none() | st.builds(JobId, st.just("backfill")) | st.builds(SequenceId, st.just("app"), counts)
commits = st.builds(
    Commit,
    id=texts,
    operation=texts,
    parameters=st.dictionaries(texts, texts, max_size=2),
    metrics=st.dictionaries(texts, counts, max_size=2),
    blind_append=st.booleans(),
    isolation=st.sampled_from(("", "Serializable", "WriteSerializable")),
    engine=texts,
    read_version=maybe_count,
    in_commit_time=st.booleans(),
    duration_ms=st.none() | st.integers(0, 2**40),
    operation_id=operations,
    tally=st.none() | st.builds(Tally, rows=counts, segments=counts, removed_rows=counts),
    actions=st.lists(adds | removes | others, max_size=4).map(tuple),
)


def encoded(*actions: Action, **info: Any) -> list[dict[str, Any]]:
    commit = Commit(id="c1", operation="WRITE", actions=actions, **info)
    return [json.loads(line) for line in DELTA.encode(commit, 7, 5_000 * MS).decode().splitlines()]


@given(commits, st.integers(1, 253_402_300_799_999))
def test_a_commit_survives_its_bytes(commit: Commit, time_ms: int) -> None:
    data = DELTA.encode(commit, 3, time_ms * MS)
    again, time_ns = DELTA.decode(data, 3)
    assert time_ns == time_ms * MS
    assert sorted(again.actions, key=repr) == sorted(commit.actions, key=repr)
    told = {name: getattr(again, name) for name in Commit.__dataclass_fields__ if name not in ("actions", "info")}
    assert told == {name: getattr(commit, name) for name in told}
    assert DELTA.encode(again, 3, time_ns) == data
    assert DELTA.time_of(data, 3) == time_ns
    assert DELTA.has_commit_time(data, time_ns)
    assert not DELTA.has_commit_time(data, time_ns + MS)


def test_actions_stand_in_the_order_that_readers_expect_whatever_that_of_the_change() -> None:
    add, gone = AddFile(path="a", size=1, modified_ms=1), RemoveFile(path="b", deleted_ms=2)
    metadata, protocol = Metadata(id="t", schema=SCHEMA), Protocol(reader=1, writer=2)
    domain, txn, cdc = DomainMetadata(domain="d", configuration=""), Txn(app_id="x", version=1), CdcFile(path="c", size=1)
    lines = encoded(cdc, add, gone, domain, txn, metadata, protocol, in_commit_time=True)
    names = [name for line in lines for name in line]
    assert names == ["commitInfo", "protocol", "metaData", "txn", "domainMetadata", "remove", "add", "cdc"]
    assert list(lines[0]["commitInfo"])[:2] == ["inCommitTimestamp", "timestamp"]
    assert lines[0]["commitInfo"]["inCommitTimestamp"] == 5_000


def test_what_others_read_in_a_commit_has_the_types_they_expect() -> None:
    line = encoded(
        parameters={"mode": "Append", "partitionBy": ["day"], "predicate": None}, metrics={"numFiles": 3}, read_version=6
    )
    info = line[0]["commitInfo"]
    assert info["operationParameters"] == {"mode": "Append", "partitionBy": '["day"]', "predicate": None}
    assert info["operationMetrics"] == {"numFiles": "3"}
    assert (info["readVersion"], info["isBlindAppend"], info["txnId"]) == (6, False, "c1")
    assert "inCommitTimestamp" not in info


def test_features_are_said_only_where_the_protocol_has_them() -> None:
    (_, old), (_, new) = encoded(Protocol(reader=1, writer=7, writer_features=frozenset({"b", "a"}))), encoded(
        Protocol(reader=3, writer=7)
    )  # fmt: skip
    assert old == {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["a", "b"]}}
    assert new == {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []}}


def test_a_commit_that_switches_on_commit_times_in_the_log_says_its_own_number_and_time() -> None:
    _, line = encoded(opened(Metadata(id="t", schema=SCHEMA)))
    assert line["metaData"]["configuration"] == {ENABLEMENT_VERSION: "7", ENABLEMENT_TIME: "5000"}


def test_unknown_actions_and_fields_are_passed_over() -> None:
    lines = (
        '{"commitInfo":{"timestamp":7,"operation":"X","newThing":{"a":1}}}',
        '{"brandNew":{"path":3}}',
        '{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"hue":"red"}}',
        "",
    )
    commit, time_ns = DELTA.decode("\r\n".join(lines).encode(), 0)
    assert commit.actions == (AddFile(path="a", size=1, modified_ms=1),)
    assert (time_ns, commit.operation, commit.info["newThing"]) == (7 * MS, "X", {"a": 1})


INFO, OTHER = '{"commitInfo":{"timestamp":7}}', '{"commitInfo":{"timestamp":9}}'
APPLIED = '{"txn":{"appId":"a","version":1}}'


@pytest.mark.parametrize(
    "lines",
    [
        (INFO,),
        (INFO, APPLIED),
        (APPLIED, INFO),
        (APPLIED, INFO, ""),
        (INFO, APPLIED, OTHER),
        ('{ "commitInfo" : {"timestamp":7}}', APPLIED),
        (APPLIED, '{ "commitInfo":{"timestamp":7}}'),
        ('{"commitInfo":{"timestamp":7,"more":{"commitInfo":{"timestamp":8}}}}', APPLIED),
        ('{"txn":{"appId":"{\\"commitInfo\\":{}","version":1}}', INFO),
        (APPLIED,),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_commit_time_is_told_without_the_actions_wherever_it_stands(lines: tuple[str, ...], end: str) -> None:
    data = end.join(lines).encode()
    assert DELTA.time_of(data, 0) == DELTA.decode(data, 0)[1]
    assert DELTA.time_of(data + end.encode(), 0) == DELTA.decode(data, 0)[1]


def test_a_commit_time_in_a_torn_line_is_damage() -> None:
    with pytest.raises(CorruptTable, match="cannot be read"):
        DELTA.time_of(b'{"commitInfo":{"timestamp":', 0)


def test_an_in_commit_time_is_the_time_and_a_commit_without_any_has_none() -> None:
    both = b'{"commitInfo":{"timestamp":7,"inCommitTimestamp":9}}'
    assert DELTA.decode(both, 0)[1] == 9 * MS
    assert DELTA.decode(b'{"commitInfo":{"operation":"X"}}', 0)[1] == 0
    assert DELTA.decode(b'{"txn":{"appId":"a","version":1}}', 0)[1] == 0


ADD = '{"add":{"path":"a","size":1}}'
BROKEN = {
    "torn": (ADD + '\n{"add":{"path":"b"', "line 2"),
    "two on a line": (ADD + ADD, "line 1"),
    "two in a line, with a comma": (f"{ADD}\n{ADD},{ADD}", "line 2"),
    "no object": ("[1]", "line 1"),
    "an add without path": ('{"add":{"size":1}}', "line 1"),
    "a size that is none": ('{"add":{"path":"a","size":-1}}', "line 1"),
    "a path that is none": (ADD + '\n\n{"remove":{"path":7}}', "line 3"),
    "not a number": ('{"add":{"path":"a","size":NaN}}', "line 1"),
    "two actions in one": ('{"add":{"path":"a","size":1},"txn":{"appId":"a","version":1}}', "line 1"),
    "a transaction without number": ('{"txn":{"appId":"a","version":"7"}}', "line 1"),
    "nothing": ("", "empty"),
    "white space": ("\n \n", "empty"),
    "a tally that is none": ('{"commitInfo":{"timestamp":1,"gapless":{"tally":{"rows":"x"}}}}', "commitInfo"),
    "an operation id that is none": ('{"commitInfo":{"timestamp":1,"gapless":{"operation_id":7}}}', "commitInfo"),
    "a commitInfo that is none": ('{"commitInfo":7}', "commitInfo"),
    "a time of a file that is none": ('{"add":{"path":"a","size":1,"modificationTime":"x"}}', "line 1"),
    "a time of a removal that is none": ('{"remove":{"path":"a","deletionTimestamp":{}}}', "line 1"),
    "a row id beyond 64 bits": ('{"add":{"path":"a","size":1,"baseRowId":9223372036854775808}}', "line 1"),
    "statistics that are no text": ('{"add":{"path":"a","size":1,"stats":{"numRecords":1}}}', "line 1"),
    "partition values that are none": ('{"add":{"path":"a","size":1,"partitionValues":[1]}}', "line 1"),
    "properties that are none": ('{"metaData":{"id":"t","configuration":7}}', "line 1"),
    "half a surrogate": ('{"add":{"path":"a","size":1,"stats":"\\ud800"}}', "its text"),
}


def test_bare_values_in_maps_of_texts_are_the_texts_that_other_readers_take_them_for() -> None:
    entry, _ = DELTA.decode(
        b'{"metaData":{"id":"t","configuration":{"delta.appendOnly":true,"a":7,"b":null}}}\n'
        b'{"add":{"path":"a","size":1,"partitionValues":{"p":7,"q":null,"r":"\\u00e9"}}}',
        4,
    )
    assert entry.metadata is not None
    assert entry.metadata.configuration == {"delta.appendOnly": "true", "a": "7"}
    assert entry.added[0].partition_values == {"p": "7", "q": None, "r": "é"}


def test_what_a_commit_says_of_times_that_nothing_can_hold_is_passed_over() -> None:
    entry, time_ns = DELTA.decode(b'{"commitInfo":{"timestamp":253402300800000,"gapless":{"duration_ms":"x"}}}', 4)
    assert (time_ns, entry.duration_ms) == (0, None)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_damaged_commit_names_its_file_and_line(kind: str) -> None:
    text, where = BROKEN[kind]
    with pytest.raises(CorruptTable, match=f"(?s)00000000000000000004.json cannot be read: .*{where}") as caught:
        DELTA.decode(text.encode(), 4)
    assert caught.value.path == DELTA.path_of(4)


def test_text_that_is_no_utf_8_is_damage() -> None:
    with pytest.raises(CorruptTable, match="UnicodeDecodeError"):
        DELTA.decode(b'{"add":{"path":"\xff","size":1}}', 4)


def test_data_files_that_are_no_parquet_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedTable, match="orc"):
        DELTA.decode(b'{"metaData":{"id":"t","format":{"provider":"orc"},"schemaString":"","partitionColumns":[]}}', 0)


@given(commits, st.data())
def test_altered_bytes_are_decoded_or_refused_with_a_typed_error(commit: Commit, data: st.DataObject) -> None:
    whole = bytearray(DELTA.encode(commit, 3, MS))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        DELTA.decode(bytes(whole), 3)
        DELTA.decode(bytes(whole[:at]), 3)
    except TableError:
        pass


def test_logs_of_spark_survive_being_told_by_us(shared: Path) -> None:
    logs = sorted((shared / "golden" / "delta").glob("*/delta/_delta_log/*.json"))
    told = 0
    for path in logs:
        if (version := DELTA.version_of(f"_delta_log/{path.name}")) is None:
            continue
        commit, time_ns = DELTA.decode(path.read_bytes(), version)
        again, again_ns = DELTA.decode(DELTA.encode(commit, version, time_ns), version)
        assert again.info == commit.info
        assert (sorted(again.actions, key=repr), again_ns) == (sorted(commit.actions, key=repr), time_ns)
        for action in commit.actions:
            _check_nothing_lost(path, action, again)
        told += 1
    assert told > 200


def test_logs_of_deltalake_survive_being_told_by_us(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["a b", "é/ü", None]})
    write_deltalake(tmp_path, rows, partition_by=["day"], configuration={"delta.enableChangeDataFeed": "true"})
    write_deltalake(tmp_path, rows, mode="append", commit_properties=CommitProperties(app_transactions=[Transaction("app", 7)]))
    DeltaLakeTable(str(tmp_path)).delete("id = 2")
    DeltaLakeTable(str(tmp_path)).update({"id": "id + 1"}, predicate="id = 1")
    kinds = set()
    for path in sorted((tmp_path / "_delta_log").glob("*.json")):
        version = int(path.stem)
        commit, time_ns = DELTA.decode(path.read_bytes(), version)
        again, again_ns = DELTA.decode(DELTA.encode(commit, version, time_ns), version)
        assert (again.info, sorted(again.actions, key=repr), again_ns) == (
            commit.info,
            sorted(commit.actions, key=repr),
            time_ns,
        )
        kinds |= {type(action).__name__ for action in commit.actions}
        for action in commit.actions:
            _check_nothing_lost(path, action, again)
    assert {"AddFile", "RemoveFile", "CdcFile", "Txn", "Metadata", "Protocol"} <= kinds


def _check_nothing_lost(path: Path, action: Action, again: Commit) -> None:
    """Every add's body is in our words what it was in theirs, but for the keys that say the default or nothing."""
    if isinstance(action, AddFile):
        said = [json.loads(line)["add"] for line in path.read_text().splitlines() if line.startswith('{"add"')]
        (theirs,) = (body for body in said if body["path"] == action.path)
        ours = [
            json.loads(line)["add"] for line in DELTA.encode(again, 0, 0).decode().splitlines() if line.startswith('{"add"')
        ]
        (mine,) = (body for body in ours if body["path"] == action.path)
        lost = {key: value for key, value in theirs.items() if value not in (None, mine.get(key))}
        assert set(lost) <= {"deletionVector"}, lost
        assert {**lost.get("deletionVector", {}), **mine.get("deletionVector", {})} == {
            **mine.get("deletionVector", {}),
            **(
                {"maxRowIndex": lost["deletionVector"]["maxRowIndex"]}
                if "maxRowIndex" in lost.get("deletionVector", {})
                else {}
            ),
        }
