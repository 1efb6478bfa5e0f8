"""`gapless delta …`, and the commands that take a table of either kind."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from cli.conftest import Ended, Gapless
from gapless.cli.app import DELTA_COMMANDS, load_command


@pytest.fixture
def trips(tmp_path: Path, inside: Gapless) -> Path:
    """A table of two days, two rows, with a change feed; and the files a.csv (its rows) and b.csv (row 2 anew, and row 3)."""
    (tmp_path / "a.csv").write_text("id,day,fare\n1,mon,2.5\n2,tue,3.0\n")
    (tmp_path / "b.csv").write_text("id,day,fare\n2,tue,9.0\n3,wed,4.0\n")
    made = inside(
        "delta", "create", tmp_path / "trips", "--column", "id=int64", "--column", "day=string", "--column", "fare=double",
        "--partition-by", "day", "--property", "delta.enableChangeDataFeed=true",
    )  # fmt: skip
    assert made.code == 0
    assert inside("delta", "append", tmp_path / "trips", tmp_path / "a.csv").out == "Version 1: 2 rows in 2 files.\n"
    return tmp_path / "trips"


def rows(path: Path) -> list[tuple[Any, ...]]:
    return sorted(rows_in_order(path))


def rows_in_order(path: Path) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in gl.delta.open(path).scan().to_pylist()]


def document(ended: Ended) -> Any:
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


# -- making and changing -----------------------------------------------------------------------------------------------


def test_a_table_is_made_with_its_columns_partitions_and_properties(trips: Path, inside: Gapless) -> None:
    table = gl.delta.open(trips)
    assert (table.schema.names, table.partition_by) == (["id", "day", "fare"], ("day",))
    assert table.properties == {"delta.enableChangeDataFeed": "true"}
    again = inside("delta", "create", trips, "--column", "id=int64")
    assert (again.code, "table-exists" in again.err, "gapless delta append" in again.err) == (2, True, True)


def test_a_table_may_take_its_columns_from_a_file(tmp_path: Path, trips: Path, inside: Gapless) -> None:
    facts = document(inside("delta", "create", tmp_path / "u", "--like", trips.parent / "a.csv", "--json"))
    assert (facts["columns"], facts["version"]) == (3, 0)
    assert [str(field.type) for field in gl.delta.open(tmp_path / "u").schema] == ["int64", "string", "double"]
    both = inside("delta", "create", tmp_path / "v", "--like", trips.parent / "a.csv", "--column", "id=int64")
    assert (both.code, "--column means nothing here" in both.err) == (2, True)
    never = inside("delta", "create", tmp_path / "v", "--column", "id=int64 not null")
    assert never.code == 0
    assert not gl.delta.open(tmp_path / "v").schema.field("id").nullable


def test_columns_may_come_with_the_first_append(tmp_path: Path, trips: Path, inside: Gapless) -> None:
    assert "those of the first append" in inside("delta", "create", tmp_path / "u").out
    assert "no columns yet" in inside("schema", tmp_path / "u").out
    assert inside("delta", "append", tmp_path / "u", trips.parent / "a.csv").out == "Version 1: 2 rows in 1 file.\n"
    assert rows(tmp_path / "u") == rows(trips)


def test_an_append_is_harmless_a_second_time_by_its_operation_id(trips: Path, inside: Gapless) -> None:
    words = ("delta", "append", trips, trips.parent / "b.csv", "--operation-id", "job-7:1", "--json")
    assert document(inside(*words))["version"] == 2
    assert document(inside(*words))["already_applied"] is True
    assert len(rows(trips)) == 4


def test_new_columns_come_in_where_that_is_asked_for(trips: Path, inside: Gapless) -> None:
    more = trips.parent / "more.csv"
    more.write_text("id,day,fare,tip\n4,thu,1.0,0.5\n")
    refused = inside("delta", "append", trips, more)
    assert (refused.code, "tip" in refused.err) == (1, True)
    assert inside("delta", "append", trips, more, "--add-columns").code == 0
    assert rows(trips)[-1] == (4, "thu", 1.0, 0.5)


def test_rows_are_overwritten_by_condition_by_partition_or_all(trips: Path, inside: Gapless) -> None:
    other = trips.parent / "other.csv"
    other.write_text("id,day,fare\n9,tue,1.0\n")
    assert inside("delta", "overwrite", trips, other, "--where", "day = 'tue'").out == (
        "Version 2: 1 row in 1 file, in place of 1 row.\n"
    )
    assert rows(trips) == [(1, "mon", 2.5), (9, "tue", 1.0)]
    assert inside("delta", "overwrite", trips, other.with_name("b.csv"), "--dynamic-partitions").code == 0
    assert rows(trips) == [(1, "mon", 2.5), (2, "tue", 9.0), (3, "wed", 4.0)]
    assert inside("delta", "overwrite", trips, other).code == 0
    assert rows(trips) == [(9, "tue", 1.0)]
    other.write_text("name,day\nx,tue\n")
    assert inside("delta", "overwrite", trips, other).code == 1
    assert inside("delta", "overwrite", trips, other, "--new-columns").code == 0
    assert gl.delta.open(trips).schema.names == ["name", "day"]
    both = inside("delta", "overwrite", trips, other, "--where", "true", "--dynamic-partitions")
    assert (both.code, "exclude each other" in both.err) == (2, True)


def test_rows_are_updated_and_deleted(trips: Path, inside: Gapless) -> None:
    assert inside("delta", "update", trips, "--set", "fare=fare * 2", "--set", "day='sun'", "--where", "id = 1").code == 0
    assert rows(trips) == [(1, "sun", 5.0), (2, "tue", 3.0)]
    report = document(inside("delta", "delete", trips, "--where", "id = 2", "--json"))
    assert (report["version"], report["removed_rows"]) == (3, 1)
    assert rows(trips) == [(1, "sun", 5.0)]
    assert "Nothing to change, still version 3" in inside("delta", "delete", trips, "--where", "id = 2").out
    assert inside("delta", "delete", trips).code == 2


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ((), [(1, "mon", 2.5), (2, "tue", 9.0), (3, "wed", 4.0)]),
        (("--update",), [(1, "mon", 2.5), (2, "tue", 9.0)]),
        (("--insert",), [(1, "mon", 2.5), (2, "tue", 3.0), (3, "wed", 4.0)]),
        (("--set", "fare=t.fare + s.fare"), [(1, "mon", 2.5), (2, "tue", 12.0)]),
        (("--update", "--where", "s.fare < 0"), [(1, "mon", 2.5), (2, "tue", 3.0)]),
        (("--delete",), [(1, "mon", 2.5)]),
        (("--update", "--insert", "--delete-missing"), [(2, "tue", 9.0), (3, "wed", 4.0)]),
    ],
)
def test_files_are_merged_in(trips: Path, inside: Gapless, options: tuple[str, ...], left: list[tuple[Any, ...]]) -> None:
    assert inside("delta", "merge", trips, trips.parent / "b.csv", "--on", "t.id = s.id", *options).code == 0
    assert rows(trips) == left


@pytest.mark.parametrize(
    "options",
    [
        ("--update", "--set", "fare=1"),
        ("--delete", "--update"),
        ("--insert", "--where", "true"),
        ("--delete", "--set", "fare=1"),
    ],
)
def test_a_merge_that_contradicts_itself_is_refused(trips: Path, inside: Gapless, options: tuple[str, ...]) -> None:
    ended = inside("delta", "merge", trips, trips.parent / "b.csv", "--on", "t.id = s.id", *options)
    assert (ended.code, "means nothing here" in ended.err) == (2, True)
    assert gl.delta.open(trips).version == 1


def test_doubles_go(trips: Path, inside: Gapless) -> None:
    inside("delta", "append", trips, trips.parent / "a.csv")
    inside("delta", "append", trips, trips.parent / "b.csv")
    assert document(inside("delta", "dedup", trips, "--json"))["removed_rows"] == 2
    assert document(inside("delta", "dedup", trips, "--key", "id", "--keep", "last", "--json"))["removed_rows"] == 1
    assert rows(trips) == [(1, "mon", 2.5), (2, "tue", 9.0), (3, "wed", 4.0)]
    inside("append", trips, trips.parent / "a.csv")
    by_fare = ("delta", "dedup", trips, "--key", "id", "--order-by", "fare", "--json")
    assert document(inside(*by_fare, "--keep", "earliest", "--operation-id", "tidy"))["removed_rows"] > 0
    assert document(inside(*by_fare, "--keep", "earliest", "--operation-id", "tidy"))["already_applied"]
    assert document(inside(*by_fare))["removed_rows"] == 0
    assert "with order_by" in inside(*by_fare, "--keep", "first").err
    assert rows(trips) == [(1, "mon", 2.5), (2, "tue", 3.0), (3, "wed", 4.0)]


def test_each_action_of_alter(trips: Path, inside: Gapless) -> None:
    steps = [
        ("add", "tip", "double", "--after", "fare", "--comment", "on top"),
        ("default", "tip", "0.0"),
        ("set", "delta.columnMapping.mode=name", "delta.enableTypeWidening=true"),
        ("rename", "fare", "price"),
        ("add", "n", "int16"),
        ("widen", "n", "int32"),
        ("comment", "n", "how many"),
        ("add-constraint", "paid", "price >= 0"),
        ("drop-constraint", "paid"),
        ("drop", "n"),
        ("unset", "delta.enableTypeWidening"),
    ]
    for version, words in enumerate(steps, 2):
        ended = inside("delta", "alter", trips, *words)
        assert (ended.code, ended.out.startswith(f"Version {version}: {words[0]}")) == (0, True), ended.err
    assert gl.delta.open(trips).schema.names == ["id", "day", "price", "tip"]
    assert document(inside("delta", "alter", trips, "comment", "tip", "on top", "--json"))["changed"] is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ad", "x"), "Did you mean 'add'"),
        (("add", "x"), "gapless delta alter PATH add NAME TYPE"),
        (("drop", "fare", "--after", "id"), "--after means nothing for drop"),
        (("rename", "fare", "x"), "`gapless delta alter PATH set delta.columnMapping.mode=name`"),
        (("widen", "fare", "decimal128(38, 2)"), "`gapless delta alter PATH set delta.enableTypeWidening=true`"),
        (("set", "delta.appendOnyl=true"), "delta.appendOnly"),
        (("set", "appendOnly"), "set 'appendOnly' is no NAME=VALUE"),
        (("unset", "delta.nope"), "'delta.nope' is not known"),
    ],
)
def test_what_is_typed_wrong_is_told_in_the_words_of_the_command_line(
    trips: Path, inside: Gapless, words: tuple[str, ...], said: str
) -> None:
    ended = inside("delta", "alter", trips, *words)
    assert ended.code == 2
    assert said in ended.err
    assert "--set" not in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("append", "{trips}", "{tip}"), "--add-columns adds new columns"),
        (("overwrite", "{trips}", "{tip}", "--new-columns", "--dynamic-partitions"), "--new-columns with a part of the table"),
        (("merge", "{trips}", "{tip}", "--on", "t.id = s.id"), "pass --add-columns to add it to the table"),
        (("delete", "{trips}"), "--where true deletes all rows"),
        (("restore", "{trips}"), "Pass --version 3 or --time 2026-01-05T00:00Z"),
        (("vacuum", "{trips}", "--older-than", "1h"), "--older-than '1:00:00' is shorter than the table's retention"),
        (("vacuum", "{trips}", "--older-than", "1h"), "`gapless delta vacuum --allow-short`"),
    ],
)  # fmt: skip
def test_errors_name_options_and_not_keywords(
    trips: Path, inside: Gapless, words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "tip.csv").write_text("id,day,fare,tip\n4,thu,1.0,0.5\n")
    ended = inside("delta", *(word.format(trips=trips, tip=tmp_path / "tip.csv") for word in words))
    assert ended.code in {1, 2}
    assert said in ended.err.replace("\n", " ")
    assert not any(python in ended.err for python in ("schema_mode", "datetime", "enforce_retention"))


def test_a_csv_file_says_what_is_null_and_how_it_writes_times(tmp_path: Path, inside: Gapless) -> None:
    (tmp_path / "a.csv").write_text("at;n\n05/01/2026 09:30;-\n05/01/2026 10:30;7\n")
    made = inside("delta", "create", tmp_path / "t", "--column", "at=timestamp[us]", "--column", "n=int64")
    assert made.code == 0, made.err
    ended = inside(
        "delta", "append", tmp_path / "t", tmp_path / "a.csv",
        "--null", "-", "--delimiter", ";", "--timestamp-format", "%d/%m/%Y %H:%M",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert rows_in_order(tmp_path / "t") == [
        (datetime(2026, 1, 5, 9, 30), None),
        (datetime(2026, 1, 5, 10, 30), 7),
    ]


# -- care --------------------------------------------------------------------------------------------------------------


def test_files_are_compacted_by_either_command(trips: Path, inside: Gapless) -> None:
    for _ in range(3):
        inside("delta", "append", trips, trips.parent / "a.csv")
    for command in (("compact",), ("delta", "compact")):
        plan = inside(*command, trips, "--dry-run")
        assert plan.out.splitlines()[0] == "2 bins: 8 files of 8"
        assert plan.out.count("(4 small)") == 2
        bins = document(inside(*command, trips, "--dry-run", "--json"))["bins"]
        assert [(len(one["segments"]), one["causes"], one["rows"]) for one in bins] == [(4, {"small": 4}, 4)] * 2
    assert "8 files of" in inside("compact", trips).out
    assert inside("delta", "compact", trips).out == "Nothing to compact; the table stays at version 5.\n"
    assert inside("compact", trips, "--resort").code == 2
    assert "Version 6" in inside("delta", "zorder", trips, "--column", "id", "--curve", "hilbert").out
    assert sorted(rows(trips)) == sorted([(1, "mon", 2.5), (2, "tue", 3.0)] * 4)


def test_either_command_compacts_to_the_size_that_the_table_says(trips: Path, inside: Gapless) -> None:
    inside("delta", "alter", trips, "set", "delta.targetFileSize=1b")
    for _ in range(3):
        inside("delta", "append", trips, trips.parent / "a.csv")
    for command in (("compact",), ("delta", "compact")):
        assert inside(*command, trips).out == "Nothing to compact; the table stays at version 5.\n"
    assert "8 files of" in inside("compact", trips, "--target-mib", "1").out


def test_vacuum_tells_first_and_deletes_then(trips: Path, inside: Gapless) -> None:
    inside("delta", "overwrite", trips, trips.parent / "b.csv")
    told = document(inside("vacuum", trips, "--json"))
    assert (told["dry_run"], told["deleted"]) == (True, 0)
    assert inside("delta", "vacuum", trips, "--older-than", "0").code == 2
    gone = document(inside("delta", "vacuum", trips, "--older-than", "0", "--allow-short", "--apply", "--json"))
    assert gone["deleted"] == 2
    shown = inside("delta", "vacuum", trips, "--files").out
    assert "live 2 files" in shown
    assert "expire" not in shown
    assert inside("at", trips, "--version", "1").code == 2


def test_a_checkpoint_is_stored_and_the_log_cleaned(trips: Path, inside: Gapless) -> None:
    assert inside("delta", "checkpoint", trips).out == "A log checkpoint of version 1 is stored.\n"
    assert (trips / "_delta_log" / f"{1:020d}.checkpoint.parquet").exists()
    assert document(inside("delta", "checkpoint", trips, "--clean-log", "--json"))["removed"] == []


def test_a_restore_goes_back_by_either_command(trips: Path, inside: Gapless) -> None:
    inside("delta", "delete", trips, "--where", "true")
    assert "Version 3 is as version 1 was: 2 rows in 2 files came back" in inside("restore", trips, "--version", "1").out
    assert document(inside("delta", "restore", trips, "--version", "2", "--json"))["version"] == 4
    assert rows(trips) == []
    assert "no tags" in inside("restore", trips, "--tag", "x").err


# -- commands for both kinds -------------------------------------------------------------------------------------------


def test_info_history_log_and_schema_know_a_delta_table(trips: Path, inside: Gapless) -> None:
    facts = document(inside("info", trips, "--json"))
    assert (facts["format"], facts["rows"], facts["files"], facts["partition_by"]) == ("delta", 2, 2, ["day"])
    assert "partition by" in inside("info", trips).out
    assert [one["operation"] for one in document(inside("history", trips, "--json"))] == ["CREATE TABLE", "WRITE"]
    assert [one["version"] for one in document(inside("log", trips, "--json", "--limit", "1"))] == [1]
    assert "WRITE" in inside("history", trips).out
    assert "WRITE" in inside("log", trips).out
    assert [one["role"] for one in document(inside("schema", trips, "--json"))] == [None, "partition", None]


def test_the_word_delta_before_a_command_of_either_kind_does_no_harm(trips: Path, inside: Gapless) -> None:
    for words in (("info", trips), ("schema", trips), ("history", trips), ("log", trips), ("scan", trips), ("verify", trips)):
        assert inside("delta", *words).out == inside(*words).out != ""
    assert inside("delta", "sql", trips, "select 7 as x", "--csv").out == "x\n7\n"
    assert inside("delta", "at", trips, "--version", "0", "--csv").out == "id,day,fare\n"
    assert "│ history " not in inside("delta", "--help").out


def test_rows_are_read_by_scan_sql_at_and_changes(trips: Path, inside: Gapless, tmp_path: Path) -> None:
    inside("delta", "update", trips, "--set", "fare=7.0", "--where", "id = 1")
    assert document(inside("scan", trips, "--where", "id = 1", "--columns", "fare", "--json")) == [{"fare": 7.0}]
    assert document(inside("sql", trips, "select sum(fare) as s from this", "--json")) == [{"s": 10.0}]
    assert document(inside("at", trips, "--version", "1", "--where", "id = 1", "--json"))[0]["fare"] == 2.5
    assert document(inside("at", trips, "--version", "0", "--sql", "select count(*) as n from this", "--json")) == [{"n": 0}]
    for words in (("changes", trips, "2", "2"), ("delta", "changes", trips, "2", "2")):
        feed = document(inside(*words, "--columns", "fare", "--json"))
        assert [(row["_change_type"], row["fare"]) for row in feed] == [("update_preimage", 2.5), ("update_postimage", 7.0)]
    assert inside("scan", trips, "--output", tmp_path / "out.parquet").code == 0
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 2


@pytest.mark.parametrize(
    ("option", "value"), [("--start", "2026"), ("--end", "2026"), ("--entity", "id=1"), ("--order", "index")]
)
def test_options_of_an_index_mean_nothing_for_a_delta_table(trips: Path, inside: Gapless, option: str, value: str) -> None:
    ended = inside("scan", trips, option, value)
    assert (ended.code, f"{option} means nothing here" in ended.err, "--where" in ended.err) == (2, True, True)


def test_verify_finds_what_is_missing_or_altered(trips: Path, inside: Gapless) -> None:
    assert inside("verify", trips, "--deep").code == 0
    files = sorted(trips.rglob("day=*/*.parquet"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes() + b"x")
    found = document_of_failure(inside("verify", trips, "--json"))
    assert [one["code"] for one in found["problems"]] == ["segment-missing", "segment-altered"]


def document_of_failure(ended: Ended) -> Any:
    assert ended.code == 1
    return json.loads(ended.out)


def test_each_kind_says_what_the_other_is(trips: Path, prices: Path, inside: Gapless) -> None:
    for words in (("gaps", trips), ("upsert", trips, trips.parent / "a.csv"), ("expire", trips)):
        ended = inside(*words)
        assert (ended.code, "is a Delta table" in ended.err, "gapless delta" in ended.err) == (2, True, True)
    ended = inside("delta", "delete", prices, "--where", "true")
    assert (ended.code, "table-not-found" in ended.err) == (2, True)
    nothing = inside("info", trips.parent / "none")
    assert (nothing.code, "there is no table" in nothing.err) == (2, True)
    assert inside("create", trips, "--index", "ts", "--bucket", "1h").code == 2


def test_a_time_series_table_wins_where_both_logs_lie(tmp_path: Path, inside: Gapless) -> None:
    gl.delta.create(tmp_path / "d", gl.delta.DeltaTable.create("memory://shape", schema_of()).schema)
    gl.create(tmp_path / "t", index="ts", bucket="1h")
    (tmp_path / "d" / "_delta_log").rename(tmp_path / "t" / "_delta_log")
    assert "format" not in document(inside("info", tmp_path / "t", "--json"))


def schema_of() -> Any:
    return pa.schema({"id": pa.int64()})


# -- help --------------------------------------------------------------------------------------------------------------


def test_the_list_of_commands_says_what_each_one_says_first() -> None:
    for name, (module, summary) in DELTA_COMMANDS.items():
        text = " ".join((load_command(module, name).__doc__ or "").partition("\n\n")[0].split())
        assert text.startswith(summary.split(":")[0].split(" of all")[0].rstrip(".")), name


def test_help_is_there_at_each_level(inside: Gapless) -> None:
    assert "overwrite" in inside("delta").out
    assert "--dynamic-partitions" in inside("delta", "overwrite", "--help").out
    assert "OPTIMIZE" in inside("delta", "compact", "--help").out
    assert "RETAIN" in inside("delta", "vacuum", "--help").out
    wrong = inside("delta", "merg")
    assert (wrong.code, "'merge'" in wrong.err) == (2, True)
