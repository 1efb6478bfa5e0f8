"""What the doctor finds, and what it removes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gapless.lake.lake import Lake


def codes(lake: Lake, **options: bool) -> list[tuple[str, bool, bool]]:
    return [(one.code, one.problem, one.mended) for one in lake.doctor(**options)]


def test_run_08_the_doctor_tells_damage_from_what_a_dead_writer_left(lake: Lake, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    table = lake.create_table("t")
    for number in range(4):
        lake.run("t", [{"a": number}])
    assert codes(lake, deep=True) == []
    gone, altered, torn, dangling = table.manifests()
    (root / gone.folder / gone.files[0].path).unlink()
    path = root / altered.folder / altered.files[0].path
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    manifest = root / torn.path
    manifest.write_bytes(manifest.read_bytes()[:50])
    shutil.rmtree(root / dangling.folder)
    stray = root / gone.folder / "part-00001-0123.parquet"
    stray.write_bytes(b"half")
    assert ("file-altered", True, False) not in codes(lake)
    found = lake.doctor(deep=True)
    assert sorted((one.code, one.path) for one in found) == sorted(
        [
            ("file-missing", f"{gone.folder}/{gone.files[0].path}"),
            ("file-altered", f"{altered.folder}/{altered.files[0].path}"),
            ("catalog-ahead", torn.folder),
            ("manifest-damaged", torn.path),
            ("leftover", f"{torn.folder}/{torn.files[0].path}"),
            ("catalog-ahead", dangling.folder),
            ("leftover", f"{gone.folder}/{stray.name}"),
        ]
    )
    assert {one.code for one in found if not one.problem} == {"leftover"}


def test_the_doctor_removes_what_is_old_and_named_by_no_manifest_alone(lake: Lake, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    table = lake.create_table("t", drift="evolve")
    lake.run("t", [{"a": 1}])
    lake.set_drift("t", "quarantine")
    lake.run("t", [{"a": 1, "b": 2}])
    table.compact()
    table.expire(keep_s=-1)
    assert codes(lake, deep=True, apply=True) == []
    (snapshot,) = table.snapshots()
    young, old = (root / snapshot.folder / f"part-{number}.parquet" for number in range(2))
    young.write_bytes(b"x")
    old.write_bytes(b"x")
    os.utime(old, (0, 0))
    assert codes(lake) == [("leftover", False, False)] * 2
    assert sorted(codes(lake, apply=True)) == [("leftover", False, False), ("leftover", False, True)]
    assert young.exists()
    assert not old.exists()
    assert table.count() == 1
