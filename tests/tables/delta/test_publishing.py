"""Delta tables that are published: what is refused before it is done, what stays until it is published, and what mends."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import gapless as gl
from gapless.errors import InvalidChange, InvalidOption, LogWarning, NotSupported, UnsupportedType, VersionNotFound
from gapless.formats.delta.actions import AddFile
from gapless.publish.iceberg.publication import IcebergPublisher
from gapless.tables.delta.table import DeltaTable
from support.clocked_delta import ClockedDelta, numbered

PUBLISHED = {"publish": ["iceberg"]}
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def made(path: Path, schema: pa.Schema = SCHEMA, **properties: Any) -> DeltaTable:
    return gl.delta.create(path, schema, properties={**PUBLISHED, **properties})


def published_rows(path: Path) -> list[Any]:
    return sorted(StaticTable.from_metadata(str(path / "_iceberg")).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_the_property_is_spelled_as_on_time_series_tables(tmp_path: Path) -> None:
    table = made(tmp_path / "t", publish_on_commit=False)
    assert table.properties == {"gapless.publish": "iceberg", "gapless.publishOnCommit": "false"}
    assert table.append(numbered(1)).published == {"iceberg": "left to `gapless publish`"}
    assert table.publications()[0].behind == 1
    assert table.publish()[0].behind == 0
    table.alter.set_properties({"publish_on_commit": True, "publish": "iceberg"})
    assert table.append(numbered(2)).published == {"iceberg": "published"}
    table.alter.set_properties({"publish": []})
    assert "gapless.publish" not in table.properties
    assert not table.append(numbered(3)).published
    assert len(published_rows(tmp_path / "t")) == 2
    table.alter.set_properties(PUBLISHED)
    assert len(published_rows(tmp_path / "t")) == 3
    table.alter.unset_properties(["publish"])
    with pytest.raises(InvalidOption, match="published in no format"):
        table.publish()


@pytest.mark.parametrize(
    ("properties", "error", "told"),
    [
        ({"publish": "delta"}, InvalidOption, "'delta', which is no format"),
        ({"gapless.publsh": "iceberg"}, InvalidOption, "gapless.publish"),
        ({"publish_on_commit": 3}, InvalidOption, "neither True nor False"),
        ({"iceberg_catalog": "prod"}, InvalidOption, "do not go together"),
        ({"delta.universalFormat.enabledFormats": "iceberg"}, NotSupported, "IcebergCompatV2"),
        ({"delta.universalFormat.enabledFormats": "paimon"}, InvalidOption, "'paimon'"),
        ({"publish": "iceberg", "delta.enableDeletionVectors": True}, NotSupported, "enableDeletionVectors"),
    ],
)
def test_what_cannot_be_promised_is_refused(
    tmp_path: Path, properties: dict[str, Any], error: type[Exception], told: str
) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA)
    with pytest.raises(error, match=told):
        table.alter.set_properties(properties)
    assert table.refresh().version == 0
    with pytest.raises(error, match=told):
        gl.delta.create(tmp_path / "u", SCHEMA, properties=properties)


CHANGES: list[tuple[Callable[[DeltaTable], object], type[Exception], str]] = [
    (lambda t: t.alter.add_column("z", pa.null()), UnsupportedType, "'z'"),
    (lambda t: t.alter.add_column("V2", pa.int8()) and t.alter.widen("V2", pa.float64()), UnsupportedType, "'V2' cannot be"),
    (lambda t: t.alter.set_properties({"delta.enableDeletionVectors": True}), NotSupported, "enableDeletionVectors"),
    (lambda t: t.alter.set_properties({"delta.columnMapping.mode": "name"}), InvalidChange, "column mapping"),
    (lambda t: t.overwrite(pa.table({"id": ["x"]}), schema_mode="overwrite"), UnsupportedType, "'id' cannot be"),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_changes_that_iceberg_cannot_say_are_refused(tmp_path: Path, number: int) -> None:
    change, error, told = CHANGES[number]
    table = made(tmp_path / "t", **{"delta.enableTypeWidening": True})
    table.append(numbered(1, 2))
    with pytest.raises(error, match=told):
        change(table)
    table.refresh()
    assert table.publications()[0].behind == 0
    assert len(published_rows(tmp_path / "t")) == 2


def test_a_table_with_deletion_vectors_is_refused_and_rewritten(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA, properties={"delta.enableDeletionVectors": True})
    table.append(numbered(*range(20)))
    table.append(numbered(*range(20, 40)))
    table.delete("id = 3")
    off = {**PUBLISHED, "delta.enableDeletionVectors": False}
    with pytest.raises(NotSupported, match="deleted by deletion vectors") as caught:
        table.alter.set_properties(off)
    assert "rewrite=True" in str(caught.value)
    untouched = {file.path for file in table.refresh().files() if not file.deleted_rows}
    table.alter.set_properties(off, rewrite=True)
    assert untouched < {file.path for file in table.files()}
    assert [row["id"] for row in published_rows(tmp_path / "t")] == [n for n in range(40) if n != 3]
    assert table.delete("id = 5").published == {"iceberg": "published"}  # copy-on-write
    assert not any(file.deleted_rows for file in table.files())
    assert len(published_rows(tmp_path / "t")) == 38


def test_a_restore_to_files_with_deletion_vectors_is_refused(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA, properties={"delta.enableDeletionVectors": True})
    table.append(numbered(*range(20)))
    table.delete("id = 3")
    table.alter.set_properties({**PUBLISHED, "delta.enableDeletionVectors": False}, rewrite=True)
    at = table.version
    table.append(numbered(50))
    with pytest.raises(NotSupported, match="enableDeletionVectors"):
        table.restore(2)
    assert table.restore(at).published == {"iceberg": "published"}
    assert table.properties["gapless.publish"] == "iceberg"
    assert len(published_rows(tmp_path / "t")) == 19


def test_files_that_carry_field_ids_of_others_are_refused_and_rewritten() -> None:
    world = ClockedDelta(properties={"gapless.publish": "iceberg"})
    world.append(1)
    ids = [
        pa.field(name, type_, metadata={b"PARQUET:field_id": number})
        for name, type_, number in zip(SCHEMA.names, SCHEMA.types, (b"2", b"1"), strict=True)
    ]
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [9], "v": ["a"]}, pa.schema(ids)), sink)
    world.store.put("x.parquet", sink.getvalue())
    world.commit(
        AddFile(path="x.parquet", size=len(sink.getvalue()), modified_ms=0), operation="WRITE", parameters={"mode": "Append"}
    )
    with pytest.raises(UnsupportedType, match="carry field ids"):
        world.table.publish()
    assert "carry field ids" in world.table.append(numbered(2)).published["iceberg"]
    world.table.alter.set_properties(PUBLISHED, rewrite=True)
    (publication,) = world.table.publish()
    assert (publication.version, publication.behind) == (world.table.version, 0)
    world.table.alter.set_properties({"publish": []})
    world.table.alter.set_properties(PUBLISHED)
    assert world.table.publications()[0].behind == 0


def test_a_hudi_table_is_links_to_the_same_files(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA)
    table.append(numbered(1, 2))
    # UniForm's own property means the same.
    table.alter.set_properties({"delta.universalFormat.enabledFormats": "hudi", "publish": ["iceberg"]})
    assert table.properties["gapless.publish"] == "iceberg,hudi"
    table.append(numbered(3))
    files = {(tmp_path / "t" / file.path).stat().st_ino for file in table.files()}
    shown = list((tmp_path / "t" / "_hudi").glob("*.parquet"))
    assert {path.stat().st_ino for path in shown} == files
    assert [(one.format, one.behind) for one in table.publications()] == [("iceberg", 0), ("hudi", 0)]
    table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    assert all(path.exists() for path in shown)
    assert gl.verify(tmp_path / "t").ok


@pytest.mark.parametrize(
    ("schema", "named", "told"),
    [
        (SCHEMA, {"partition_by": "v"}, "partitioned by 'v'"),
        (SCHEMA, {"properties": {"delta.columnMapping.mode": "name"}}, "files hold it as"),
        (pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]), {}, "without a zone"),
    ],
)
def test_what_hudi_does_not_have_is_refused(tmp_path: Path, schema: pa.Schema, named: dict[str, Any], told: str) -> None:
    properties = {"publish": "hudi", **named.pop("properties", {})}
    with pytest.raises((UnsupportedType, InvalidChange), match=told):
        gl.delta.create(tmp_path / "t", schema, properties=properties, **named)


def test_lists_beside_column_mapping_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.struct([("some", pa.list_(pa.int32()))]))])
    with pytest.raises(UnsupportedType, match=r"'n\.some' .* column mapping"):
        made(tmp_path / "t", schema, **{"delta.columnMapping.mode": "name"})


def test_mapping_that_comes_while_nothing_is_published_begins_the_ids_anew(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.append(numbered(1, 2))
    table.alter.set_properties({"publish": []})
    table.alter.set_properties({"delta.columnMapping.mode": "name"})
    table.alter.add_column("w", pa.string(), after="id")
    table.alter.drop_column("v")
    table.append({"id": [3], "w": ["new"]})
    table.alter.set_properties(PUBLISHED)
    assert table.publications()[0].behind == 0
    assert published_rows(tmp_path / "t") == [{"id": 1, "w": None}, {"id": 2, "w": None}, {"id": 3, "w": "new"}]
    assert gl.verify(tmp_path / "t").ok


def test_a_publication_that_fails_leaves_the_commit_and_is_caught_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")

    def fails(*_: object, **__: object) -> int:
        raise OSError("no network")

    monkeypatch.setattr(IcebergPublisher, "publish", fails)
    assert table.append(numbered(1)).published == {"iceberg": "OSError: no network"}
    assert (table.publications()[0].behind, table.publications()[0].why) == (1, "OSError: no network")
    monkeypatch.undo()
    assert table.merge(numbered(2), "t.id = s.id").when_not_matched_insert_all().execute().published == {"iceberg": "published"}
    assert len(published_rows(tmp_path / "t")) == 2


def test_what_another_writer_commits_to_the_description_is_found_and_mended(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.append(numbered(1))
    folder = tmp_path / "t" / "_iceberg" / "metadata"
    last = max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    told = json.loads(last.read_text())
    told["properties"]["gapless.version"] = "7"
    (folder / f"v{int(last.name[1:].split('.')[0]) + 1}.metadata.json").write_text(json.dumps(told))
    assert "ForeignCommit" in table.append(numbered(2)).published["iceberg"]
    report = gl.verify(tmp_path / "t")
    assert [one.code for one in report.problems] == ["publication-foreign"]
    planned = gl.repair(tmp_path / "t")
    assert (planned.applied, [step.act for step in planned.steps], planned.left) == (False, ["publish-again"], ())
    assert gl.repair(tmp_path / "t", apply=True).ok
    assert gl.verify(tmp_path / "t").ok
    assert len(published_rows(tmp_path / "t")) == 2


def json_lines(world: ClockedDelta, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in world.store.get(f"_delta_log/{version:020}.json").splitlines()]


def behind() -> ClockedDelta:
    """A table whose publisher stands at version 1, and that has lost both files of before since."""
    world = ClockedDelta(properties={"gapless.publish": "iceberg", "gapless.publishOnCommit": "false"})
    world.append(1)
    world.table.publish()
    world.append(2)
    world.table.overwrite(numbered(3))
    return world


def test_a_vacuum_keeps_what_is_described_still_and_says_so() -> None:
    world = behind()
    world.wait(days=2)
    report = world.table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    assert (report.waits_for, report.files["published"], report.files["expired"]) == (("iceberg",), 2, 0)
    assert world.table.publish()[0].behind == 0
    report = world.table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    assert (report.waits_for, report.files["expired"]) == ((), 2)


def test_a_dead_publisher_holds_nothing_back_after_seven_days() -> None:
    world = behind()
    world.wait(days=8)
    report = world.table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    assert (report.waits_for, report.files["expired"]) == ((), 2)


def test_log_cleanup_keeps_the_commits_that_are_to_be_published_and_says_so() -> None:
    world = behind()
    world.wait(days=3)
    world.append(4)
    with pytest.warns(LogWarning, match="not cleaned past version 1: what is published as iceberg"):
        world.table.cleanup_log(timedelta(days=1), enforce_retention=False)
    assert world.table.publish()[0].behind == 0
    told = [entry.version for entry in world.table.history()]
    assert told[0] <= 1


def test_a_version_that_a_vacuum_took_files_of_is_told_to_be_gone_when_it_is_restored() -> None:
    world = ClockedDelta(properties={"gapless.publish": "iceberg"})
    world.append(1, 2)
    world.table.overwrite(numbered(3))
    world.wait(days=10)
    world.table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    with pytest.raises(VersionNotFound, match="version 1"):
        world.table.restore(1)
    assert world.table.publications()[0].behind == 0


def test_snapshots_whose_files_a_vacuum_deletes_leave_the_metadata() -> None:
    world = ClockedDelta(properties={"gapless.publish": "iceberg"})
    world.append(1, 2)
    world.table.overwrite(numbered(3))
    publisher = IcebergPublisher(world.env(), world.table._source(world.table._snapshot).settings)
    before = publisher._place.load().metadata.snapshots  # type: ignore[union-attr]
    world.wait(days=10)
    world.table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    after = publisher._place.load().metadata.snapshots  # type: ignore[union-attr]
    kept = [int(one.summary["gapless.version"]) for one in after if one.summary is not None]
    assert (len(before), kept) == (3, [3, 4, 5])
    told = [txn for entry in json_lines(world, 4) if (txn := entry.get("txn"))]
    assert [(txn["appId"], txn["version"]) for txn in told] == [("gapless.published.iceberg", 3)]
