"""The index of files: a publisher that has read nothing finds the manifest of a file by it, and as well without it, or by a wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import gapless as gl
from gapless.publish.iceberg.file_index import FILE_INDEX, FileIndex, digests, origin_of
from gapless.publish.iceberg.manifests import Manifests
from support.clocked_table import rows_at


@pytest.fixture(autouse=True)
def _small_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.publish.iceberg.manifests.MANIFEST_ENTRIES", 4)
    monkeypatch.setattr("gapless.publish.iceberg.manifests._LARGE", 2)


def made(path: Path, files: int = 40) -> gl.TimeSeriesTable:
    table = gl.create(path, index="ts", bucket="1h", properties={"checkpoint_interval": 10})
    for hour in range(files):
        table.append(rows_at(hour))
    table.set_properties({"publish": ["iceberg"]})
    return table


def index_of(path: Path) -> Path | None:
    name = StaticTable.from_metadata(str(path / "_iceberg")).metadata.properties.get(FILE_INDEX)
    return None if name is None else path / "_iceberg" / "metadata" / name


def check(path: Path) -> None:
    found = StaticTable.from_metadata(str(path / "_iceberg")).scan().to_arrow().sort_by("ts")
    assert found.to_pylist() == gl.open(path).scan().to_arrow().to_pylist()
    assert gl.verify(path).ok


def test_a_removal_reads_the_manifest_of_its_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "t")
    read: list[str] = []
    entries = Manifests.entries

    def counted(self: Manifests, manifest: object) -> object:
        read.append(manifest.manifest_path)  # type: ignore[attr-defined]
        return entries(self, manifest)  # type: ignore[arg-type]

    monkeypatch.setattr(Manifests, "entries", counted)
    for number in (3, 20, 21, 37):
        read.clear()
        gl.open(tmp_path / "t").delete(f"v = {float(number)}")  # all rows of one file
        assert 1 <= len(set(read)) <= 2  # beside it one of those that removals made small
    monkeypatch.undo()
    check(tmp_path / "t")


def _gone(index: Path) -> None:
    index.unlink()


def _damaged(index: Path) -> None:
    index.write_text("[]")


def _wrong(index: Path) -> None:
    told = json.loads(index.read_text())
    names = list(told["manifests"])
    told["manifests"] = dict(zip(names, [*list(told["manifests"].values())[1:], ""], strict=True))
    index.write_text(json.dumps(told))


@pytest.mark.parametrize("damage", [_gone, _damaged, _wrong])
def test_it_is_a_hint(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    made(tmp_path / "t")
    index = index_of(tmp_path / "t")
    assert index is not None
    damage(index)
    assert gl.open(tmp_path / "t").delete("v = 3.0 or v = 38.0").published == {"iceberg": "published"}
    check(tmp_path / "t")


def test_one_is_there_and_has_all_large_manifests(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for number in range(80):
        table.append(rows_at(100 + number))
        if number % 20 == 0:
            gl.open(tmp_path / "t").delete(f"v = {float(number)}")
    (index,) = (tmp_path / "t" / "_iceberg" / "metadata").glob("files-*.json")
    assert index == index_of(tmp_path / "t")
    found = StaticTable.from_metadata(str(tmp_path / "t" / "_iceberg"))
    current = found.current_snapshot()
    assert current is not None
    known = FileIndex.decode(index.read_bytes())
    for manifest in current.manifests(found.io):
        files = [entry.data_file.file_path for entry in manifest.fetch_manifest_entry(found.io)]
        told = known.may_hold(manifest.manifest_path, digests(files))
        assert told if len(files) >= 2 and told is not None else told is None or len(files) < 2
    check(tmp_path / "t")


def test_a_manifest_made_of_another_goes_by_its_name() -> None:
    own, origin = "9c12d441-03fe-4693-9a96-a0705ddf69c1", "11111111-03fe-4693-9a96-a0705ddf69c1"
    assert origin_of(f"s3://b/m-{own}.avro") == own
    assert origin_of(f"s3://b/m-{own}-of-{origin}.avro") == origin
    assert origin_of("s3://b/0001-m0.avro") is None
    index = FileIndex({origin: digests(["a", "b"])})
    told = FileIndex.decode(index.encode())
    assert told.may_hold(f"m-{own}-of-{origin}.avro", digests(["b"])) is True
    assert told.may_hold(f"m-{own}-of-{origin}.avro", digests(["c"])) is False
    assert told.may_hold(f"m-{own}.avro", digests(["b"])) is None
