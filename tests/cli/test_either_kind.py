"""Commands that take a table of either kind: each does what it says on both, and refuses the options of the other kind by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gapless as gl
from cli.conftest import Gapless


@pytest.fixture
def series(tmp_path: Path, inside: Gapless) -> Path:
    """A time-series table of two rows (version 2), and its file day.csv."""
    (tmp_path / "day.csv").write_text("ts,close\n2026-01-05T09:00:00Z,1.5\n2026-01-05T10:00:00Z,2.5\n")
    assert inside("create", tmp_path / "series", "--index", "ts", "--bucket", "1h").code == 0
    assert inside("append", tmp_path / "series", tmp_path / "day.csv").code == 0
    return tmp_path / "series"


@pytest.fixture
def trips(tmp_path: Path, inside: Gapless) -> Path:
    """A Delta table of two rows (version 1) with a change feed, and its file trips.csv."""
    (tmp_path / "trips.csv").write_text("id,fare\n1,2.5\n2,3.0\n")
    feed = ("--property", "delta.enableChangeDataFeed=true")
    assert inside("delta", "create", tmp_path / "trips", "--like", tmp_path / "trips.csv", *feed).code == 0
    assert inside("append", tmp_path / "trips", tmp_path / "trips.csv").out == "Version 1: 2 rows in 1 file.\n"
    return tmp_path / "trips"


def test_an_append_knows_a_change_that_is_sent_again(trips: Path, inside: Gapless) -> None:
    words = ("append", trips, trips.with_suffix(".csv"), "--operation-id", "job:1", "--json")
    assert [json.loads(inside(*words).out)["already_applied"] for _ in range(2)] == [False, True]
    assert gl.delta.open(trips).version == 2


def test_an_append_adds_columns_to_a_delta_table(trips: Path, inside: Gapless) -> None:
    more = trips.with_name("more.csv")
    more.write_text("id,fare,tip\n3,1.0,0.5\n")
    assert inside("append", trips, more).code == 1
    assert inside("append", trips, more, "--add-columns").code == 0
    assert gl.delta.open(trips).schema.names == ["id", "fare", "tip"]


def test_rows_are_deleted_by_a_condition(series: Path, trips: Path, inside: Gapless) -> None:
    assert inside("delete", series, "--where", "close > 2").out.startswith("Version 3: 0 rows written, 1 row of the table")
    assert inside("delete", trips, "--where", "id = 1").out.startswith("Version 2: 0 rows written, 1 row of the table")


def test_columns_are_altered(series: Path, trips: Path, inside: Gapless) -> None:
    for table in (series, trips):
        assert inside("alter", table, "add", "note", "string", "--comment", "why").out.endswith(": add note string\n")
    assert inside("alter", trips, "add-constraint", "paid", "fare >= 0").code == 0
    unknown = inside("alter", series, "add-constraint", "paid", "close >= 0")
    assert (unknown.code, "'add-constraint' is no action" in unknown.err) == (2, True)
    assert "A time-series table has none of that name" in unknown.err
    refused = inside("alter", trips, "add", "x", "int8", "--default", "1")
    assert (refused.code, "--default means nothing for add" in refused.err) == (2, True)


def test_changes_are_read_and_files_compacted_vacuumed_and_restored(series: Path, trips: Path, inside: Gapless) -> None:
    assert [row["_change_type"] for row in json.loads(inside("changes", trips, "1", "1", "--json").out)] == ["insert"] * 2
    assert inside("append", trips, trips.with_suffix(".csv")).code == 0
    assert "2 files of" in inside("compact", trips, "--where", "id > 0").out
    assert inside("vacuum", trips, "--older-than", "0").code == 2
    assert inside("vacuum", trips, "--older-than", "0", "--allow-short", "--apply").out.endswith("bytes deleted.\n")
    assert inside("append", series, series.with_name("day.csv"), "--on-overlap", "allow").code == 0
    assert "2 segments of" in inside("compact", series).out
    assert inside("restore", series, "--version", "2").code == 0
    assert len(json.loads(inside("changes", series, "2", "2", "--json").out)) == 2


def test_what_only_delta_tables_have_is_found_without_the_word_delta(series: Path, trips: Path, inside: Gapless) -> None:
    assert inside("update", trips, "--set", "fare=1", "--where", "id = 1").code == 0
    assert inside("merge", trips, trips.with_suffix(".csv"), "--on", "t.id = s.id").code == 0
    assert inside("checkpoint", trips).code == 0
    refused = inside("update", series, "--set", "close=1")
    assert (refused.code, "`gapless --help` lists what time-series tables have" in refused.err) == (2, True)
    assert "│ merge " not in inside("--help").out


@pytest.mark.parametrize(
    ("words", "option", "said"),
    [
        (("append", "{trips}", "{file}", "--on-overlap", "skip"), "--on-overlap", "A Delta table has no coverage"),
        (("append", "{trips}", "{file}", "--upgrade"), "--upgrade", "It is about time-series tables"),
        (("append", "{series}", "{file}", "--add-columns"), "--add-columns", "`gapless alter PATH add NAME TYPE`"),
        (("delete", "{trips}", "--start", "2026-01-05T00:00Z"), "--start", "Say it with --where"),
        (("delete", "{trips}", "--entity", "id=1"), "--entity", "no entity columns"),
        (("compact", "{trips}", "--cluster-by", "id"), "--cluster-by", "`gapless delta zorder --help`"),
        (("compact", "{series}", "--where", "close > 1"), "--where", "This is a time-series table"),
        (("vacuum", "{series}", "--allow-short"), "--allow-short", "`gapless expire` lets go of versions"),
        (("restore", "{trips}", "--tag", "x"), "--tag", "Say --version or --time"),
        (("at", "{trips}", "--tag", "x"), "--tag", "Say --version or --time"),
    ],
)
def test_an_option_of_the_other_kind_is_refused_by_name(
    series: Path, trips: Path, inside: Gapless, words: tuple[str, ...], option: str, said: str
) -> None:
    before = gl.open(series).version, gl.delta.open(trips).version
    file = series.with_name("day.csv") if "{series}" in words else trips.with_suffix(".csv")
    ended = inside(*(word.format(series=series, trips=trips, file=file) for word in words))
    assert (ended.code, ended.out) == (2, "")
    assert f"{option} means nothing here" in ended.err
    assert said in " ".join(ended.err.split())
    assert (gl.open(series).version, gl.delta.open(trips).version) == before


def test_columns_are_left_out(series: Path, trips: Path, inside: Gapless) -> None:
    assert inside("scan", series, "--exclude", "close", "--csv").out.splitlines()[0] == "ts"
    assert inside("scan", trips, "--exclude", "fare", "--csv").out.splitlines() == ["id", "1", "2"]
    assert inside("changes", trips, "1", "--exclude", "fare", "--csv").out.splitlines()[0].startswith("id,_change_type")
    assert inside("changes", series, "2", "--exclude", "ts", "--csv").out.splitlines()[0].startswith("close,_change_type")
    wrong = inside("scan", trips, "--exclude", "fair")
    assert (wrong.code, "'fare'" in wrong.err) == (2, True)
    assert inside("scan", trips, "--exclude", "fare", "--columns", "id").code == 2
    assert inside("at", trips, "--version", "1", "--exclude", "fare", "--csv").out.splitlines()[0] == "id"
