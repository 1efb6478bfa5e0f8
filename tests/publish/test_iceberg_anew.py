"""A description as Iceberg that cannot be followed any more is begun anew, in one step; and the one version of the format that is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.manifest import write_manifest, write_manifest_list
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataV3

import gapless as gl
from gapless.errors import InvalidOption, NotSupported
from gapless.formats.iceberg.commits import first_metadata
from support.clocked_table import rows_at

PUBLISHED = {"publish": ["iceberg"]}


def same_rows(table: gl.TimeSeriesTable, path: Path) -> None:
    found = StaticTable.from_metadata(str(path / "_iceberg")).scan().to_arrow().sort_by("ts")
    assert found.to_pylist() == table.scan().to_arrow().to_pylist()


def upgraded(place: Path) -> None:
    """What another writer leaves that upgrades the table to version 3."""
    number = int((place / "metadata" / "version-hint.text").read_text())
    told = json.loads((place / "metadata" / f"v{number}.metadata.json").read_text())
    told |= {"format-version": 3, "next-row-id": 0}
    (place / "metadata" / f"v{number + 1}.metadata.json").write_text(json.dumps(told))
    (place / "metadata" / "version-hint.text").write_text(str(number + 1))


def torn(place: Path) -> None:
    """Metadata that cannot be read."""
    number = int((place / "metadata" / "version-hint.text").read_text())
    (place / "metadata" / f"v{number}.metadata.json").write_text("{")


def without_manifests(place: Path) -> None:
    """Manifests that somebody deleted."""
    for manifest in (place / "metadata").glob("m-*.avro"):
        manifest.unlink()


@pytest.mark.parametrize("damage", [upgraded, torn, without_manifests])
def test_a_description_that_cannot_be_followed_is_begun_anew_in_one_step(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    for hour in range(3):
        table.append(rows_at(hour))
    place = tmp_path / "t" / "_iceberg"
    damage(place)
    last = max(int(path.name[1:].partition(".")[0]) for path in (place / "metadata").glob("*.metadata.json"))
    assert not gl.verify(tmp_path / "t").ok
    assert gl.open(tmp_path / "t").publish(mend=True)[0].behind == 0
    # No state between in which readers would find no table.
    assert (place / "metadata" / "version-hint.text").read_text() == str(last + 1)
    same_rows(table, tmp_path / "t")
    assert gl.verify(tmp_path / "t").ok
    assert gl.open(tmp_path / "t").append(rows_at(5)).published == {"iceberg": "published"}
    same_rows(table.refresh(), tmp_path / "t")


def test_a_handle_of_before_goes_on_with_a_description_that_was_begun_anew(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    table.append(rows_at(0))
    upgraded(tmp_path / "t" / "_iceberg")
    assert "version 3 of Iceberg" in table.append(rows_at(1)).published["iceberg"]
    gl.open(tmp_path / "t").publish(mend=True)
    assert table.append(rows_at(2)).published == {"iceberg": "published"}
    same_rows(table, tmp_path / "t")


def test_version_3_is_refused_by_name_as_long_as_the_library_cannot_write_it(tmp_path: Path) -> None:
    """Fails when pyiceberg can: then write it."""
    with pytest.raises(NotSupported, match="version 3 of Iceberg's format is not written"):
        gl.create(tmp_path / "t", index="ts", bucket="1h", properties={**PUBLISHED, "iceberg_version": 3})
    with pytest.raises(InvalidOption, match="'two' is no version"):
        gl.create(tmp_path / "t", index="ts", bucket="1h", properties={**PUBLISHED, "iceberg_version": "two"})
    metadata = first_metadata("file:///t/_iceberg", "file:///t", "9c12d441-03fe-4693-9a96-a0705ddf69c1", 1)
    version_3 = TableMetadataV3.model_validate({**metadata, "format-version": 3, "next-row-id": 0})
    with pytest.raises(NotImplementedError):
        version_3.model_dump_json()
    with pytest.raises(ValueError, match="version: 3"):
        write_manifest(3, PartitionSpec(), Schema(), None, 1, "deflate")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="version: 3"):
        write_manifest_list(3, None, 1, None, 1, "deflate")  # type: ignore[arg-type]
