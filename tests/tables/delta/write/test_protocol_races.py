"""A table that is given a feature we do not have, between our reading it and our commit, is not written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from gapless.errors import CommitConflict, UnsupportedTable
from gapless.tables.delta.table import DeltaTable
from support.delta_tables import made, racing, rows_of

ROWS = pa.table({"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]})

CHANGES: dict[str, Callable[[DeltaTable], object]] = {
    "append": lambda table: table.append(ROWS),
    "overwrite": lambda table: table.overwrite(ROWS),
    "overwrite where": lambda table: table.overwrite(ROWS.slice(0, 1), where="id < 2"),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"v": "'x'"}, where="id = 1"),
    "merge": lambda table: table.merge(ROWS, on="t.id = s.id").when_matched_update({"v": "'y'"}).execute(),
    "dedup": lambda table: table.dedup(["v"]),
    "compact": lambda table: table.compact(),
    "zorder": lambda table: table.zorder(["id"]),
    "restore": lambda table: table.restore(version=1),
    "set properties": lambda table: table.alter.set_properties({"owner": "me"}),
    "add column": lambda table: table.alter.add_column("n", pa.int64()),
    "add constraint": lambda table: table.alter.add_constraint("some", "id > 0"),
}
FUTURE = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants", "futureWriting"]}
FURTHER = {**FUTURE, "minReaderVersion": 3, "readerFeatures": ["futureReading"], "writerFeatures": ["futureReading"]}


def _upgrade(path: Path, version: int, protocol: dict[str, object]) -> None:
    (path / "_delta_log" / f"{version:020}.json").write_text(json.dumps({"protocol": protocol}))


@pytest.mark.parametrize("protocol", [FUTURE, FURTHER], ids=["writers", "readers"])
@pytest.mark.parametrize("change", CHANGES)
def test_an_upgrade_that_comes_first_stops_the_change(change: str, protocol: dict[str, object], tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS.slice(0, 2))
    table.append(ROWS.slice(2))
    table.append(ROWS.slice(0, 1))
    late = racing(tmp_path / "t", lambda: _upgrade(tmp_path / "t", 4, protocol))
    with pytest.raises((UnsupportedTable, CommitConflict)):
        CHANGES[change](late)
    assert not (tmp_path / "t" / "_delta_log" / f"{5:020}.json").exists()


def test_a_handle_learns_of_the_upgrade_when_it_refreshes(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    before = rows_of(table)
    _upgrade(tmp_path / "t", 2, FURTHER)
    with pytest.raises(UnsupportedTable, match="futureReading"):
        table.refresh()
    assert (table.version, rows_of(table)) == (1, before), "it still sees what it saw"
    with pytest.raises(UnsupportedTable, match="futureReading"):
        DeltaTable.open(tmp_path / "t")


@pytest.mark.parametrize("change", CHANGES)
def test_a_handle_whose_change_met_an_upgrade_for_readers_sees_what_it_saw(change: str, tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    table.append(ROWS)
    before = rows_of(table)
    _upgrade(tmp_path / "t", 3, FURTHER)
    with pytest.raises(UnsupportedTable, match="futureReading"):
        CHANGES[change](table)
    assert (table.version, rows_of(table)) == (2, before)


def test_no_version_is_read_that_needs_what_we_do_not_have(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS, {"delta.enableChangeDataFeed": "true"})
    _upgrade(tmp_path / "t", 2, FURTHER)
    for read in (
        lambda: table.at(2),
        lambda: table.at(time="2100-01-01T00:00Z"),
        lambda: table.changes(0, 2),
        lambda: table.restore(version=1),
    ):
        with pytest.raises(UnsupportedTable, match="futureReading"):
            read()
    assert rows_of(table.at(1)) == rows_of(table)


def test_a_version_whose_needs_were_dropped_since_is_neither_read_nor_restored(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS, {"delta.enableChangeDataFeed": "true"})
    plain: dict[str, object] = {"minReaderVersion": 1, "minWriterVersion": 4}
    for version, protocol in enumerate((FURTHER, plain, FUTURE, plain), 2):
        _upgrade(tmp_path / "t", version, protocol)
    table.refresh()
    for read in (lambda: table.at(2), lambda: table.changes(1, 5), lambda: table.restore(version=2)):
        with pytest.raises(UnsupportedTable, match="futureReading"):
            read()
    assert rows_of(table.at(4)) == rows_of(table)
    with pytest.raises(UnsupportedTable, match="futureWriting"):
        table.restore(version=4)
    assert table.version == 5


def test_an_upgrade_for_writers_alone_is_read(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    _upgrade(tmp_path / "t", 2, FUTURE)
    assert rows_of(table.refresh()) == rows_of(DeltaTable.open(tmp_path / "t"))
    for change in CHANGES.values():
        with pytest.raises(UnsupportedTable, match="futureWriting"):
            change(table)
    assert table.version == 2
