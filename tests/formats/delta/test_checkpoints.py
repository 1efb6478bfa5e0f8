"""Log checkpoints of Delta tables: of every kind that others write, and ours."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from formats.delta.test_replay import actions as some_actions
from gapless.errors import CorruptTable, LogWarning
from gapless.formats.delta.action_codec import encode_action
from gapless.formats.delta.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from gapless.formats.delta.checkpoint import rows as checkpoint_rows
from gapless.formats.delta.checkpoint import writing
from gapless.formats.delta.checkpoint.names import checkpoints_in, decode_pointer
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.schema.types import PrimitiveType, StructField, StructType
from gapless.log.checkpoint import read_checkpoint
from gapless.log.format import Snapshot, StoredCheckpoint
from gapless.log.snapshot import load
from gapless.testing.store.stores import DictStore
from support.delta_log import DAY_MS, MS, START_MS, V2, Log, add, remove, told

UUID = "0e42c15b-17cc-4918-990d-2ff76e918e4d"


def table(log: Log, name: str) -> pa.Table:
    return pq.read_table(io.BytesIO(log.read(name)))


def rows(log: Log, name: str, action: str) -> list[dict[str, Any]]:
    return [row for row in table(log, name).column(action).to_pylist() if row is not None]


def parquet(bodies: Sequence[dict[str, Any]]) -> bytes:
    """Actions as another writer's Parquet: only the columns that it needs, maps as structs have them."""
    names = list(dict.fromkeys(name for body in bodies for name in body))
    columns = {name: [body.get(name) for body in bodies] for name in names}
    for name in {"add", "remove"} & set(names):
        columns[name] = [None if row is None else {**row, "partitionValues": None} for row in columns[name]]
    if "metaData" in columns:
        columns["metaData"] = [
            None if row is None else {**row, "configuration": None, "format": {"provider": "parquet"}}
            for row in columns["metaData"]
        ]
    sink = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), sink)
    return sink.getvalue()


def bodies(log: Log, *more: dict[str, Any]) -> list[dict[str, Any]]:
    state = log.load().state
    told: list[Action] = [state.protocol, state.metadata, *state.files.values()]
    return [*more, *(encode_action(action) for action in told)]


def without_commits(log: Log, *, keep: int | None = None) -> None:
    log.drop(*(version for version in range(log.version + 1) if version != keep))


def grown(files: int = 3, **options: Any) -> Log:
    log = Log(**options)
    for number in range(files):
        log.land(add(f"f{number}"))
    return log


# -- ours --------------------------------------------------------------------------------------------------------------


@given(st.lists(some_actions, max_size=6), st.sampled_from(["classic", "v2", "v2 with sidecars"]))
def test_a_checkpoint_of_ours_says_all_that_the_commits_say(commits: list[tuple[Action, ...]], kind: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "FILES_FROM", 1 if kind == "v2 with sidecars" else 10_000)
        patch.setattr(writing, "FILES_EACH", 2)
        keep = {"delta.deletedFileRetentionDuration": "interval 99999 days", "delta.checkpointPolicy": kind[:2]}
        log = Log(configuration=keep if kind != "classic" else {**keep, "delta.checkpointPolicy": "classic"}, protocol=V2)
        for one in commits:
            log.land(*one)
        before = log.checkpoint()
        without_commits(log)
        after = log.load()
    assert (after.version, after.time_ns, told(after.state)) == (before.version, before.time_ns, told(before.state))
    names = [name for name in log.names() if name.startswith("_sidecars/")]
    some = len(before.state.files) + len(before.state.removed) > 0
    assert bool(names) is (kind == "v2 with sidecars" and some)
    assert [part.path.removeprefix("_delta_log/") for part in DELTA.parts_of(after)] == names


def test_the_hint_says_what_readers_of_the_protocol_expect() -> None:
    log = grown()
    log.land(remove("f0", at_ms=START_MS), Txn(app_id="x", version=1))
    log.checkpoint()
    name = "00000000000000000004.checkpoint.parquet"
    assert json.loads(log.read("_last_checkpoint")) == {
        "version": 4,
        "size": table(log, name).num_rows,
        "sizeInBytes": len(log.read(name)),
        "numOfAddFiles": 2,
    }


def test_tombstones_and_transactions_are_kept_for_as_long_as_the_table_asks() -> None:
    asked = {
        "delta.deletedFileRetentionDuration": "interval 2 days",
        "delta.setTransactionRetentionDuration": "interval 3 days",
    }
    log = Log(configuration=asked)
    now_ms = START_MS + 10 * DAY_MS
    log.land(*(add(name) for name in "abcd"))
    log.land(
        remove("a", at_ms=now_ms - 3 * DAY_MS), remove("b", at_ms=now_ms - DAY_MS), structs.replace(remove("c"), deleted_ms=None),
        Txn(app_id="old", version=1, updated_ms=now_ms - 4 * DAY_MS), Txn(app_id="new", version=1, updated_ms=now_ms - DAY_MS),
        Txn(app_id="undated", version=1),
    )  # fmt: skip
    log.time_ms = now_ms
    log.land()
    log.checkpoint()
    without_commits(log)
    state = log.load().state
    assert list(state.removed) == ["b"]
    assert list(state.files) == ["d"]
    assert sorted(state.applied) == ["app:new", "app:undated"]
    assert json.loads(log.read("_last_checkpoint"))["size"] == table(log, "00000000000000000003.checkpoint.parquet").num_rows


def test_a_v2_checkpoint_names_sidecars_that_hold_the_files_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FILES_FROM", 3)
    monkeypatch.setattr(writing, "FILES_EACH", 2)
    log = grown(5, configuration={"delta.checkpointPolicy": "v2"}, protocol=V2)
    log.land(remove("f0", at_ms=START_MS + DAY_MS))
    log.checkpoint()
    name = "00000000000000000006.checkpoint.parquet"
    assert rows(log, name, "add") == rows(log, name, "remove") == [], "Spark wants the columns, and no row"
    assert rows(log, name, "checkpointMetadata") == [{"version": 6, "tags": None}]
    found = rows(log, name, "sidecar")
    stored = [one for one in log.names() if one.startswith("_sidecars/")]
    assert [f"_sidecars/{one['path']}" for one in found] == stored
    assert [one["sizeInBytes"] for one in found] == [len(log.read(one)) for one in stored]
    assert [len(rows(log, one, "add")) for one in stored] == [2, 2]
    assert [len(rows(log, one, "remove")) for one in stored] == [1, 0]
    hint = json.loads(log.read("_last_checkpoint"))
    assert (hint["size"], hint["numOfAddFiles"]) == (3 + 2 + 5, 4)


def test_the_v2_policy_without_the_feature_makes_what_every_reader_knows() -> None:
    log = grown(configuration={"delta.checkpointPolicy": "v2"})
    log.checkpoint()
    assert "checkpointMetadata" not in table(log, "00000000000000000003.checkpoint.parquet").column_names


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_what_no_checkpoint_can_hold_is_a_warning_since_the_commit_stands(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FILES_FROM", 1)
    log = Log(configuration={"delta.checkpointPolicy": policy}, protocol=V2)
    log.write(f"{1:020}.json", [{"add": {"path": "a", "size": 2**70, "modificationTime": 1}}])
    with pytest.warns(LogWarning, match="was not written: version 1 cannot be told as a log checkpoint"):
        log.checkpoint()
    assert not [name for name in log.names() if "checkpoint" in name]


# -- statistics --------------------------------------------------------------------------------------------------------

COLUMNS = {
    "i": ("integer", 5),
    "l": ("long", 2**60 + 1),
    "d": ("double", 0.1),
    "s": ("string", 'naïve "q"'),
    "day": ("date", "2026-01-05"),
    "far": ("date", "+12026-01-05"),
    "ts": ("timestamp", "2026-01-05T10:00:00.123Z"),
    "ntz": ("timestamp_ntz", "2026-01-05T10:00:00.123456"),
    "dec": ("decimal(30,4)", 12345678901234567890123456.7891),
}
STATS = (
    '{"numRecords":3,"minValues":{"i":5,"l":1152921504606846977,"d":0.1,"s":"naïve \\"q\\"","day":"2026-01-05",'
    '"ts":"2026-01-05T10:00:00.123Z","ntz":"2026-01-05T10:00:00.123456","dec":12345678901234567890123456.7891,"deep":{"x":1}},'
    '"maxValues":{"l":1152921504606846978},"nullCount":{"i":0,"deep":{"x":2}},"tightBounds":true}'
)


def wide_metadata(**configuration: str) -> Metadata:
    fields = [
        StructField(name=name, type=PrimitiveType(kind), metadata={"delta.columnMapping.physicalName": f"p-{name}"} if name == "i" else {})
        for name, (kind, _) in COLUMNS.items()
    ]  # fmt: skip
    deep = StructField(name="deep", type=StructType(fields=(StructField(name="x", type=PrimitiveType("short")),)))
    part = StructField(name="part", type=PrimitiveType("date"))
    properties = {f"delta.checkpoint.{name}": value for name, value in configuration.items()}
    return Metadata(
        id="t", schema=StructType(fields=(*fields, deep, part)), partition_by=("part",), configuration=properties, created_ms=1
    )


def test_statistics_that_are_only_columns_are_read_as_the_text_they_were() -> None:
    log = Log()
    stats = STATS.replace('"i":', '"p-i":')
    log.land(wide_metadata(writeStatsAsStruct="true", writeStatsAsJson="false"))
    log.land(
        add("a", stats=stats, partition_values={"part": "2026-01-06"}),
        add("none", partition_values={"part": None}),
        add("damaged", stats='{"numRecords":"x","minValues":7', partition_values={"part": None}),
        add("odd", stats='{"numRecords":4,"minValues":{"p-i":"five"},"nullCount":{"l":1}}', partition_values={"part": None}),
    )
    log.checkpoint()
    column = table(log, "00000000000000000002.checkpoint.parquet").column("add").combine_chunks()
    assert column.type.get_field_index("stats") < 0
    names = {field.name for field in column.type.field("stats_parsed").type.field("minValues").type}
    assert names == {"p-i", *COLUMNS, "deep"} - {"i"}
    without_commits(log)
    state = log.load().state
    assert json.loads(state.files["a"].stats or "", parse_float=str) == json.loads(stats, parse_float=str)
    assert [state.files[key].stats for key in ("none", "damaged", "odd")] == [None, None, None]
    parsed = rows(log, "00000000000000000002.checkpoint.parquet", "add")
    assert [str(row["partitionValues_parsed"]["part"]) for row in parsed] == ["2026-01-06", "None", "None", "None"]


def test_statistics_as_columns_are_read_where_the_text_is_there_and_null() -> None:
    log = grown(1)
    whole = [
        {"add": {**body["add"], "stats": None, "stats_parsed": {"numRecords": 7}}} if "add" in body else body
        for body in bodies(log)
    ]
    log.write(f"{1:020}.checkpoint.parquet", parquet(whole))
    log.drop(0)
    assert log.load().state.files["f0"].stats == '{"numRecords":7}'


def test_lines_of_a_checkpoint_end_where_json_lines_do() -> None:
    log = grown(0, protocol=V2)
    odd = {"domainMetadata": {"domain": "a\u2028b\x85c", "configuration": "", "removed": False}}
    text = "\n".join(json.dumps(body, ensure_ascii=False) for body in bodies(log, {"checkpointMetadata": {"version": 0}}, odd))
    log.write(f"{0:020}.checkpoint.{UUID}.json", text.encode())
    log.drop(0)
    assert list(log.load().state.domains) == ["a\u2028b\x85c"]


def test_a_checkpoint_in_json_with_half_a_surrogate_is_passed_over() -> None:
    log = grown(1, protocol=V2)
    odd = {"add": {"path": "\ud800", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}
    log.write(f"{1:020}.checkpoint.{UUID}.json", [*bodies(log, {"checkpointMetadata": {"version": 1}}), odd])
    with pytest.warns(LogWarning, match="cannot be read"):
        assert list(log.load().state.files) == ["f0"]


def test_a_tombstone_of_a_checkpoint_is_made_a_value_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    log = grown(3)
    log.land(remove("f0", at_ms=START_MS), remove("f1", at_ms=START_MS))
    log.checkpoint()
    monkeypatch.setattr(checkpoint_rows, "RemoveFile", None)
    state = log.load().state
    assert (list(state.files), len(state.removed), "f1" in state.removed) == (["f2"], 2, True)


def test_one_file_whose_statistics_fit_no_column_takes_none_from_the_others() -> None:
    log = Log()
    log.land(wide_metadata(writeStatsAsStruct="true", writeStatsAsJson="false"))
    log.land(add("odd", stats='{"numRecords":4,"minValues":{"l":99999999999999999999}}', partition_values={"part": None}))
    log.land(add("good", stats='{"numRecords":4,"minValues":{"far":"+12026-01-05"}}', partition_values={"part": None}))
    log.checkpoint()
    found = {row["path"]: row["stats_parsed"] for row in narrow(table(log, "00000000000000000003.checkpoint.parquet"))}
    assert found["odd"] is None
    assert found["good"] == 4


def narrow(whole: pa.Table) -> list[dict[str, Any]]:
    """Path and counted rows, since a date may lie beyond what Python has."""
    column = whole.column("add").combine_chunks()
    stats = column.field("stats_parsed").field("numRecords").to_pylist()
    paths = column.field("path").to_pylist()
    return [{"path": path, "stats_parsed": rows} for path, rows in zip(paths, stats, strict=True) if path is not None]


def test_statistics_are_text_and_columns_where_both_are_asked_for() -> None:
    log = Log()
    log.land(wide_metadata(writeStatsAsStruct="true"))
    log.land(add("a", stats='{"numRecords":7}', partition_values={"part": None}))
    log.checkpoint()
    (row,) = rows(log, "00000000000000000002.checkpoint.parquet", "add")
    assert (row["stats"], row["stats_parsed"]["numRecords"]) == ('{"numRecords":7}', 7)


# -- others' -----------------------------------------------------------------------------------------------------------


def write_in_pieces(log: Log, pieces: int) -> None:
    whole = bodies(log)
    for piece in range(pieces):
        log.write(f"{log.version:020}.checkpoint.{piece + 1:010}.{pieces:010}.parquet", parquet(whole[piece::pieces]))
    log.write("_last_checkpoint", json.dumps({"version": log.version, "size": len(whole), "parts": pieces}).encode())


@pytest.mark.parametrize("hint", [True, False])
def test_a_checkpoint_in_pieces_is_read_when_all_are_there(*, hint: bool) -> None:
    log = grown(4)
    write_in_pieces(log, 3)
    if not hint:
        log.store.delete(DELTA.last_checkpoint)
    log.drop(*range(log.version))
    found = log.load()
    assert sorted(found.state.files) == ["f0", "f1", "f2", "f3"]
    assert found.time_ns == log.time_ms * MS, "its time is that of its commit, which is still there"


def test_a_checkpoint_that_lacks_a_piece_is_passed_over() -> None:
    log = grown(4)
    write_in_pieces(log, 3)
    log.store.delete(f"_delta_log/{log.version:020}.checkpoint.{2:010}.{3:010}.parquet")
    with pytest.warns(LogWarning, match=r"0000000002\.0000000003\.parquet is missing"):
        assert len(log.load().state.files) == 4
    log.store.delete(DELTA.last_checkpoint)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(log.load().state.files) == 4
        assert len(log.load(3).state.files) == 3


@pytest.mark.parametrize("kind", ["json", "parquet"])
@pytest.mark.parametrize("hint", [True, False])
def test_a_checkpoint_named_by_a_uuid_is_read_with_its_sidecars(kind: str, *, hint: bool) -> None:
    log = grown(4, protocol=V2)
    files = [body for body in bodies(log) if "add" in body]
    parts = {"one two.parquet": files[:1], "three.parquet": files[1:]}
    for name, some in parts.items():
        log.write(f"_sidecars/{name}", parquet(some))
    named = [
        {
            "sidecar": {
                "path": name.replace(" ", "%20"),
                "sizeInBytes": len(log.read(f"_sidecars/{name}")),
                "modificationTime": 1,
            }
        }
        for name in parts
    ]
    top: list[dict[str, Any]] = [
        {"checkpointMetadata": {"version": log.version}},
        *named,
        *(body for body in bodies(log) if "add" not in body),
    ]
    name = f"{log.version:020}.checkpoint.{UUID}.{kind}"
    log.write(name, top if kind == "json" else parquet(top))
    if hint:
        v2 = {"version": log.version, "size": 7, "v2Checkpoint": {"path": name, "sizeInBytes": 1, "modificationTime": 1}}
        log.write("_last_checkpoint", json.dumps(v2).encode())
    log.drop(*range(log.version))
    found = log.load()
    assert list(found.state.files) == ["f0", "f1", "f2", "f3"]
    log.store.delete("_delta_log/_sidecars/three.parquet")
    with (
        pytest.raises(CorruptTable, match="version 0 is lost"),
        pytest.warns(LogWarning, match=r"three\.parquet .* is missing"),
    ):
        log.load()


def test_a_checkpoint_of_a_version_serves_where_another_of_it_is_damaged() -> None:
    log = grown(2, protocol=V2)
    top = [{"checkpointMetadata": {"version": log.version}}, *bodies(log)]
    log.write(f"{log.version:020}.checkpoint.{UUID}.json", top)
    log.checkpoint()
    log.write(f"{log.version:020}.checkpoint.parquet", b"PAR1")
    log.drop(*range(log.version))
    with pytest.warns(LogWarning, match="cannot be read"):
        assert len(log.load().state.files) == 2


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_a_checkpoint_that_does_not_say_what_the_table_is_is_passed_over(missing: str) -> None:
    log = grown(2)
    kept = [body for body in bodies(log) if missing not in body]
    log.write(f"{log.version:020}.checkpoint.parquet", parquet(kept))
    with pytest.warns(LogWarning, match=f"there is no {missing}"):
        assert len(log.load().state.files) == 2


def test_a_file_that_is_there_twice_makes_a_checkpoint_useless() -> None:
    log = grown(2)
    twice = bodies(log)
    log.write(f"{log.version:020}.checkpoint.parquet", parquet([*twice, twice[-1]]))
    with pytest.warns(LogWarning, match="there twice"):
        assert len(log.load().state.files) == 2


def test_damage_in_what_is_made_a_value_later_is_found_when_the_checkpoint_is_read() -> None:
    log = Log()
    log.land(add("f", stats='{"numRecords":7}'))
    whole = parquet(bodies(log))
    assert b"numRecords" in whole
    log.write(f"{log.version:020}.checkpoint.parquet", whole.replace(b"numRecords", b"num\xffecords"))
    with pytest.warns(LogWarning, match="cannot be read"):
        assert log.load().state.files["f"].stats == '{"numRecords":7}'


def test_a_file_that_deltalake_keeps_as_live_since_it_spelled_its_removal_otherwise_is_not_live() -> None:
    log = Log()
    log.land(add("day=%C3%A9/a"), add("b"))
    log.write(
        f"{log.version:020}.checkpoint.parquet",
        parquet([*bodies(log), {"remove": {"path": "day=é/a", "deletionTimestamp": 5, "dataChange": True}}]),
    )
    log.drop(0)
    state = log.load().state
    assert list(state.files) == ["b"]


@pytest.mark.parametrize(
    "hint",
    [b"", b"{", b"[]", b"7", b'{"version":"1"}', b'{"version":-1}', b'{"version":true}', b'{"version":1,"v2Checkpoint":{"path":"x"}}',
     b'{"version":1,"parts":"x"}', b'{"version":1,"parts":0}', b'{"v2Checkpoint":{}}', b"\xff\xfe"],
)  # fmt: skip
def test_a_hint_that_cannot_be_read_means_list(hint: bytes) -> None:
    assert decode_pointer(hint) is None
    log = grown(3)
    log.checkpoint(2)
    log.write("_last_checkpoint", hint)
    log.drop(0, 1)
    assert sorted(log.load().state.files) == ["f0", "f1", "f2"]


@pytest.mark.parametrize("named", [1, 3, 9])
def test_a_hint_that_lies_is_passed_over_with_a_warning(named: int) -> None:
    log = grown(3)
    log.checkpoint(2)
    log.write("_last_checkpoint", json.dumps({"version": named, "size": 1}).encode())
    with pytest.warns(LogWarning, match=f"0{named}.checkpoint.parquet is missing"):
        assert sorted(log.load().state.files) == ["f0", "f1", "f2"]


def test_other_objects_of_the_log_folder_are_no_checkpoints() -> None:
    names = [
        f"_delta_log/{name}"
        for name in (
            "00000000000000000001.json", "00000000000000000001.crc", "00000000000000000000.00000000000000000001.compacted.json",
            "00000000000000000001.checkpoint.json", f"00000000000000000001.checkpoint.{UUID}.crc", "_last_checkpoint",
            "00000000000000000001.checkpoint.parquet.tmp", ".00000000000000000001.checkpoint.parquet.crc", "1.checkpoint.parquet",
            "00000000000000000001.checkpoint.0000000001.0000000002.json", f"_staged_commits/00000000000000000001.{UUID}.json",
            f"_sidecars/00000000000000000001.checkpoint.0000000001.0000000001.{UUID}.parquet",
        )
    ]  # fmt: skip
    assert checkpoints_in(names) == []
    assert [name for name in names if DELTA.version_of(name) is not None] == names[:1]


def test_log_compaction_files_and_checksums_change_nothing() -> None:
    log = grown(3)
    before = told(log.load().state)
    log.write(f"{1:020}.{2:020}.compacted.json", [{"add": {"path": "wrong", "size": 1}}])
    log.write(f"{2:020}.crc", b"{}")
    log.write(f"_staged_commits/{4:020}.{UUID}.json", [{"add": {"path": "staged", "size": 1}}])
    assert told(log.load().state) == before


@given(st.integers(0), st.integers(1, 255))
def test_damage_anywhere_in_a_checkpoint_is_found_or_changes_nothing(at: int, flip: int) -> None:
    log = _CHECKPOINTED
    path = DELTA.checkpoint_path(log.version)
    whole = bytearray(log.store.get(path))
    whole[at % len(whole)] ^= flip
    stored = StoredCheckpoint(log.version, (path,))
    try:
        found = DELTA.assemble([bytes(whole)], stored, log.env.drive)
        assert told(found.state) == told(log.load(log.version).state)
    except CorruptTable as error:
        assert error.path == path  # noqa: PT017 - either is right


def _checkpointed() -> Log:
    log = grown(3)
    log.land(
        Txn(app_id="x", version=1, updated_ms=5), DomainMetadata(domain="d", configuration="c"), remove("f1", at_ms=START_MS)
    )
    log.checkpoint()
    return log


_CHECKPOINTED = _checkpointed()


# -- deltalake ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classic", "v2", "v2 with sidecars"])
def test_deltalake_reads_our_checkpoints_alone(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FILES_FROM", 1 if kind == "v2 with sidecars" else 10_000)
    policy = {"delta.checkpointPolicy": kind[:2]} if kind != "classic" else {}
    log = grown(5, configuration=policy, protocol=V2 if policy else Protocol(reader=1, writer=2))
    log.land(remove("f0", at_ms=START_MS), Txn(app_id="stream", version=7))
    log.checkpoint()
    for path, (data, _) in log.store.objects.items():
        if (DELTA.version_of(path) or 0) == log.version or DELTA.version_of(path) is None:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(data)
    theirs = DeltaLakeTable(str(tmp_path))
    assert theirs.version() == log.version
    assert sorted(uri.rpartition("/")[2] for uri in theirs.file_uris()) == ["f1", "f2", "f3", "f4"]
    assert theirs.transaction_version("stream") == 7


def test_checkpoints_of_spark_say_what_their_commits_say(shared: Path) -> None:
    compared = 0
    for place in sorted((shared / "golden" / "delta").glob("*/delta")):
        log = Log()
        log.store.objects.clear()
        for file in (place / "_delta_log").rglob("*"):
            if file.is_file():
                log.store.put(str(file.relative_to(place)), file.read_bytes())
        names = [info.path for info in log.store.list("_delta_log")]
        for stored in checkpoints_in(names):
            if "missing" not in place.parent.name:
                snapshot = log.env.drive(read_checkpoint(DELTA, stored))
                assert snapshot is not None
                compared += _same_as_commits(log.store.objects, snapshot)
    assert compared >= 15


def _same_as_commits(objects: dict[str, tuple[bytes, int]], snapshot: Snapshot[Any]) -> bool:
    """Whether the commits alone tell as much: the same, but for tombstones that had expired when the checkpoint was written."""
    log = Log(store=DictStore())
    log.store.objects = dict(objects)
    for path in objects:
        if DELTA.checkpoint_of(path) is not None or path == DELTA.last_checkpoint:
            log.store.objects.pop(path)
    alone = log.env.drive(load(DELTA, snapshot.version))
    assert alone is not None
    ours, theirs = told(alone.state), told(snapshot.state)
    gone, kept = ours.pop("removed"), theirs.pop("removed")
    for side in (ours, theirs):
        side["files"] = {key: structs.replace(file, stats=None, tags=None) for key, file in sorted(side["files"].items())}
    assert theirs == ours
    assert set(kept) <= set(gone)
    assert snapshot.time_ns == alone.time_ns
    return True


@given(st.lists(st.text(st.sampled_from("ab/%:é"), max_size=4), min_size=1, max_size=5), st.integers(0, 4))
def test_paths_are_plain_where_none_is_encoded_absolute_or_a_uri(paths: list[str], first: int) -> None:
    for type_ in (pa.string(), pa.large_string()):
        asked = pa.array(paths, type_).slice(min(first, len(paths) - 1))
        assert checkpoint_rows._are_plain(asked) is not any(re.search("[%:]|^/", path) for path in asked.to_pylist())
