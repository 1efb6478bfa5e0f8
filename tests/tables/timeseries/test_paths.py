"""Any place a table can lie, through its whole life; read-only places; S3."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import AccessDenied, TableExists, TableNotFound
from gapless.store.open import open_store
from gapless.testing.store.case import in_child
from support.faulty_store import objects, open_faulty

NAMES = [
    "plain", "with space", "per%cent", "100%25", "ha#sh", "que?ry", "st*r", "[bracket]", "größe-日本-🎉", "a=b", "semi;colon", "co:lon",
    "quo'te", 'dou"ble', "back\\slash", "new\nline", "-dash", "{a,b}", "$HOME", ".hidden", "_under", "a.parquet", " lead", "trail ", "a&b+c",
]  # fmt: skip
ROWS = {"i": [1, 12, 25], "x": [1.5, None, 3.0], "s": ["a", "", "ü"]}


def live(place: Any, **options: Any) -> gl.TimeSeriesTable:
    """A table's whole life: made, filled, opened, read every way."""
    made = gl.create(place, index="i", index_type="int64", bucket=10, **options)
    made.append(ROWS)
    table = gl.open(place, **options)
    table.append({"i": [41], "x": [4.0], "s": ["b"]})
    with pytest.raises(gl.CoverageOverlap):
        made.append({"i": [45]})
    with pytest.raises(TableExists):
        gl.create(place, index="i", index_type="int64", bucket=10, **options)
    assert table.scan().to_arrow().column("i").to_pylist() == [1, 12, 25, 41]
    assert table.scan(where="x > 2").count() == 2
    assert table.scan(where=pa.compute.field("s") == "ü").count() == 1
    assert table.sql("SELECT max(i) AS m FROM this WHERE x > 2").to_arrow().to_pylist() == [{"m": 41}]
    assert [(gap.start, gap.end) for gap in table.coverage().gaps()] == [(30, 40)]
    assert [entry.operation for entry in table.history()] == ["create", "append", "append"]
    return table


@pytest.mark.parametrize("name", NAMES)
def test_any_local_name_works(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    table = live(place)
    assert table.name == name
    assert (place / "_timeseries_log" / "0000000001.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert gl.open(f"{place}///").scan().count() == 4


@pytest.mark.parametrize(
    "spell", [str, Path, lambda path: f"{path}/", lambda path: path.as_uri(), lambda path: f"{path}/../{path.name}"]
)
def test_one_place_in_many_spellings(tmp_path: Path, spell: Callable[[Path], Any]) -> None:
    place = tmp_path / "a b%20#"
    live(place)
    assert gl.open(spell(place)).scan().count() == 4


def test_a_relative_path_is_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    table = live("t")
    rows, query = table.scan(), table.sql("SELECT * FROM this")
    monkeypatch.chdir("/")
    assert rows.count() == query.count() == 4
    table.append({"i": [100]})
    assert gl.open(tmp_path / "here" / "t").version == 4
    assert not Path("/t").exists()


def test_home_and_symbolic_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    live("~/tables/t")
    (tmp_path / "link").symlink_to(tmp_path / "tables")
    assert gl.open(tmp_path / "link" / "t").scan().count() == 4
    (tmp_path / "dead").symlink_to(tmp_path / "nowhere")
    live(tmp_path / "dead")
    assert (tmp_path / "nowhere" / "data").is_dir()


def test_path_10_names_above_the_table_are_no_columns(tmp_path: Path) -> None:
    table = live(tmp_path / "Year=2022" / "x=1" / "t")
    assert table.schema is not None
    assert table.schema.names == ["i", "x", "s"]
    assert table.sql("SELECT * FROM this").schema.names == ["i", "x", "s"]
    assert table.scan().to_arrow().column("x").to_pylist() == [1.5, None, 3.0, 4.0]


def test_path_06_look_alikes_of_null_stay_what_they_are(tmp_path: Path) -> None:
    texts = ["", "null", "None", "NULL", "__HIVE_DEFAULT_PARTITION__", " ", "nan"]
    table = gl.create(tmp_path / "t", index="i", entity=["k"], index_type="int64", bucket=1)
    for text in texts:
        table.append({"i": [1, 2], "k": [text, text], "v": [None, text]})
    assert {identity[0] for identity in gl.open(tmp_path / "t").identities()} == set(texts)
    for text in texts:
        assert table.scan(entity={"k": text}).to_arrow().column("v").to_pylist() == [None, text]
        assert table.scan(where=f"k = '{text}'").count() == 2
        assert table.coverage(entity={"k": text}).covered == 2
    assert table.scan(where="v IS NULL").count() == len(texts)


def test_path_07_nulls_pass_no_comparison_across_segments(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="i", index_type="int64", bucket=1)
    table.append({"i": [1], "k": pa.array([None], pa.int64())})
    table.append({"i": [2], "k": [2450824]})
    counts = [table.scan(where=w).count() for w in ("k > 0", "k != 2450824", "k IS NOT NULL", "k IS NULL")]
    assert counts == [1, 0, 1, 1]
    assert [
        len(table.sql(f"FROM this WHERE {w}").to_arrow()) for w in ("k > 0", "k != 2450824", "k IS NOT NULL", "k IS NULL")
    ] == counts


def test_path_08_texts_keep_their_zeros_and_numbers_their_order(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="i", entity=["day", "id"], index_type="int64", bucket=1)
    for day, name in ((6, "007"), (10, "7"), (9, "07")):
        table.append({"i": [1], "day": pa.array([day], pa.int8()), "id": [name]})
    assert table.scan(where="day < 9").to_arrow().column("id").to_pylist() == ["007"]
    assert (
        table.scan(entity={"day": 6}).count()
        == table.scan(entity={"id": "007"}).count()
        == table.scan(where="id = '007'").count()
        == 1
    )
    assert table.identities() == [(6, "007"), (9, "07"), (10, "7")]


@pytest.mark.parametrize("value", ["😈", "<http://x>", "x" * 300, "CON", "a.", "a/b", "..", "\\", "%2F", "\n"])
def test_path_13_an_identity_may_be_any_text(tmp_path: Path, value: str) -> None:
    """Identities lie in the log and in files, never in file names."""
    table = gl.create(tmp_path / "t", index="i", entity=["k"], index_type="int64", bucket=1)
    table.append({"i": [1], "k": [value], "b": [b"\x00\xff"]})
    again = gl.open(tmp_path / "t")
    assert again.identities() == [(value,)]
    assert again.scan(entity={"k": value}).to_arrow().to_pylist() == [{"i": 1, "k": value, "b": b"\x00\xff"}]
    assert all(value not in path for path in objects(str(tmp_path / "t"))) or value in ("..", "\\", "\n", "a/b")


def test_path_14_an_instant_is_found_whichever_way_it_is_asked_for(tmp_path: Path) -> None:
    from datetime import datetime

    table = gl.create(tmp_path / "t", index="ts", bucket="1d")
    table.append({"ts": [datetime(2024, 5, 1, 10)], "d": pa.array([datetime(2024, 5, 1).date()])})
    for where in (
        "ts = TIMESTAMP '2024-05-01 10:00:00'",
        "ts >= TIMESTAMP '2024-05-01 09:00:00'",
        "ts < DATE '2024-05-02'",
        "d = DATE '2024-05-01'",
    ):
        assert table.scan(where=where).count() == 1
        assert table.sql(f"FROM this WHERE {where}").count() == 1
    assert table.scan("2024-05-01", "2024-05-02").count() == 1


@pytest.mark.parametrize("operation", ["scan", "sql", "coverage", "history"])
def test_path_15_reading_writes_nothing(tmp_path: Path, operation: str) -> None:
    place = str(tmp_path / "t")
    live(place)
    before = {path: (tmp_path / "t" / path).stat().st_mtime_ns for path in objects(place)}
    table, store = open_faulty(place)

    def deny(path: str) -> None:
        raise AccessDenied(f"read only: {path}", path=path)

    store.before_put = store.before_delete = deny
    questions: dict[str, Callable[[], object]] = {
        "scan": lambda: table.scan(order="index").to_arrow(),
        "sql": lambda: table.sql("FROM this").to_arrow(),
        "coverage": lambda: table.coverage().gaps(),
        "history": table.history,
    }
    assert questions[operation]()
    assert not store.puts
    assert {path: (tmp_path / "t" / path).stat().st_mtime_ns for path in objects(place)} == before


def test_path_15_an_append_to_a_read_only_place_is_one_clear_error(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    live(place)
    before = objects(place)
    table, store = open_faulty(place)

    def deny(path: str) -> None:
        raise AccessDenied(f"{path} cannot be written", path=path)

    store.before_put = deny
    with pytest.raises(AccessDenied):
        table.append({"i": [100]})
    assert objects(place) == before


def test_path_15_a_directory_without_write_permission() -> None:
    place = Path(tempfile.mkdtemp())
    try:
        live(place / "t")
        for folder, _, names in os.walk(place):
            Path(folder).chmod(0o555)
            for name in names:
                (Path(folder) / name).chmod(0o444)

        def read_and_append() -> None:
            if os.geteuid() == 0:
                os.setgid(65_534)
                os.setuid(65_534)
            table = gl.open(place / "t")
            assert table.scan().count() == 4
            assert table.coverage().covered == 4
            with pytest.raises(AccessDenied):
                table.append({"i": [100]})

        before = objects(str(place / "t"))
        assert in_child(read_and_append) == 0
        assert objects(str(place / "t")) == before
    finally:
        for folder, _, _ in os.walk(place):
            Path(folder).chmod(0o700)
        shutil.rmtree(place)


def test_nothing_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        gl.open(tmp_path / "none")
    assert not (tmp_path / "none").exists(), "to look makes nothing"


def test_the_whole_life_on_s3(s3_options: tuple[str, dict[str, str]]) -> None:
    place, options = s3_options
    table = live(f"{place}/a b%20ü#?", storage_options=options)
    assert table.name == "a b%20ü#?"
    names = [info.path for info in open_store(f"{place}/a b%20ü#?", options).list()]
    assert sum(name.startswith("data/") for name in names) == 2
    assert table.scan(order="index", columns=["s"]).to_arrow().column("s").to_pylist() == ["a", "", "ü", "b"]
    stale = gl.open(f"{place}/a b%20ü#?", storage_options=options)
    table.append({"i": [100]})
    assert stale.append({"i": [200]}).version == 5
    assert stale.append({"i": [1, 300]}, on_overlap="skip").skipped_rows == 1
