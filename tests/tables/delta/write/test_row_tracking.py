"""Row Tracking: rows keep their ids and versions through every kind of change, in tables of Spark's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.formats.delta.actions import AddFile, Commit, DomainMetadata, Metadata, Protocol, TableState
from gapless.formats.delta.row_tracking import DOMAIN, high_water_mark, rebase_rows, track_rows
from gapless.tables.delta.files.open_file import Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.row_tracking import RowTracking
from support.delta_log import SCHEMA
from support.delta_tables import racing

FIXTURE = Path(__file__).resolve().parents[3] / "fixtures" / "delta" / "spark_row_tracking_copied" / "table"
Ids = dict[int, tuple[int, int]]
"""The row id and the commit version of each row, by the row's own `id`."""


def ids(table: Any) -> Ids:
    """As the protocol has readers reconstruct them."""
    state = table._snapshot.state
    tracking = RowTracking.of(state)
    assert tracking is not None
    reader = FileReader.of(table._env.store, tracking.metadata(state.metadata))
    row_id, version = tracking.names
    found = [
        (row["id"], (row[row_id], row[version]))
        for file, rows in reader.read(state.files.values(), Projection(position=True))
        for row in tracking.told(rows, file).to_pylist()
    ]
    assert len({one[0] for _, one in found}) == len(found), "a row id is there twice"
    return dict(found)


def check_fresh(table: Any, before: int) -> None:
    """No row id was ever given twice, and the log says the highest."""
    state = table._snapshot.state
    given = [(file.base_row_id, json.loads(file.stats)["numRecords"]) for file in state.files.values()]
    assert all(base is not None and base + rows - 1 <= high_water_mark(state) for base, rows in given)
    assert high_water_mark(state) >= before


@pytest.fixture(params=[False, True], ids=["copied", "vectors"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    shutil.copytree(FIXTURE, tmp_path / "t")
    opened = gl.delta.open(tmp_path / "t")
    if request.param:
        opened.alter.set_properties({"delta.enableDeletionVectors": "true"})
    return opened


def test_the_fixture_reads_as_spark_reads_it(table: Any) -> None:
    assert ids(table) == {1: (0, 3), 2: (1, 1), 3: (2, 2)}


def test_every_change_keeps_the_ids_of_the_rows_that_stay(table: Any) -> None:
    known = ids(table)

    def changed(act: Callable[[], Any]) -> Ids:
        before, mark = ids(table), high_water_mark(table._snapshot.state)
        act()
        check_fresh(table, mark)
        commit = Path(table.url.removeprefix("file://"), "_delta_log", f"{table.version:020}.json").read_text()
        assert json.loads(commit.splitlines()[0])["commitInfo"]["tags"] == {"delta.rowTracking.preserved": "true"}
        return {one: told for one, told in ids(table).items() if before.get(one) != told}

    new = changed(lambda: table.append([{"id": 4, "v": "d"}, {"id": 5, "v": "e"}]))
    assert new.keys() == {4, 5}
    assert {version for _, version in new.values()} == {table.version}
    row_of_4 = new[4][0]
    assert changed(lambda: table.update({"v": "'w'"}, where="id = 4")) == {4: (row_of_4, table.version)}
    assert changed(lambda: table.delete("id = 2")) == {}
    merge = table.merge([{"id": 5, "v": "m"}, {"id": 6, "v": "n"}], on="t.id = s.id")
    told = changed(lambda: merge.when_matched_update_all().when_not_matched_insert_all().execute())
    assert told.keys() == {5, 6}
    assert told[5] == (new[5][0], table.version)
    assert changed(table.compact) == {}
    table.append([{"id": 7, "v": "x"}])
    assert changed(lambda: table.zorder(["v"])) == {}
    assert table.dedup(["id"]).removed_rows == 0
    assert ids(table)[1] == known[1]
    last = ids(table)
    table.overwrite([{"id": 9, "v": "y"}], where="id = 7 or id = 9")
    assert {one: told for one, told in ids(table).items() if one != 9} == {k: v for k, v in last.items() if k != 7}
    table.restore(table.version - 1)
    assert ids(table) == last
    table.checkpoint()
    assert ids(gl.delta.open(table.url)) == last
    assert gl.verify(table.url, deep=True).ok


def test_ids_lie_in_hidden_columns_of_rewritten_files_alone(table: Any) -> None:
    table.append([{"id": 4, "v": "d"}])
    state = table._snapshot.state
    newest = list(state.files.values())[-1]
    root = Path(table.url.removeprefix("file://"))
    assert pq.read_schema(root / newest.path).names == ["id", "v"]
    table.update({"v": "'w'"}, where="id = 4")
    newest = list(table._snapshot.state.files.values())[-1]
    tracking = RowTracking.of(state)
    assert tracking is not None
    assert pq.read_schema(root / newest.path).names == ["id", "v", *tracking.names]
    assert table.schema.names == ["id", "v"]
    assert set(json.loads(newest.stats)["minValues"]) == {"id", "v"}


def test_appends_at_once_get_ids_of_their_own(tmp_path: Path) -> None:
    shutil.copytree(FIXTURE, tmp_path / "t")
    other = gl.delta.open(tmp_path / "t")

    def meanwhile() -> None:
        other.append([{"id": 10, "v": "a"}, {"id": 11, "v": "b"}])
        other.delete("id = 1")
        other.append([{"id": 12, "v": "c"}])

    mine = racing(tmp_path / "t", meanwhile)
    mine.append([{"id": 13, "v": "d"}])
    table = gl.delta.open(tmp_path / "t")
    found = ids(table)
    assert found.keys() == {2, 3, 10, 11, 12, 13}
    assert found[13][1] == table.version
    check_fresh(table, 0)


def test_a_table_that_only_supports_it_gets_ids_for_new_files() -> None:
    table = gl.delta.create("memory://tracked", properties={"delta.feature.rowTracking": "supported"})
    table.append({"n": [1, 2, 3]})
    table.append({"n": [4]})
    table.delete("n = 1")
    assert {"rowTracking", "domainMetadata"} <= table.protocol.writer_features
    files = [(file.base_row_id, file.default_row_commit_version) for file in table._snapshot.state.files.values()]
    assert files == [(3, 2), (4, 3)]
    assert json.loads(table._snapshot.state.domains[DOMAIN].configuration) == {"rowIdHighWaterMark": 5}


def tracked(mark: int | None = None) -> TableState:
    protocol = Protocol(reader=1, writer=7, writer_features=frozenset({"rowTracking", "domainMetadata"}))
    domains = {} if mark is None else {DOMAIN: marked(mark)}
    return TableState(protocol=protocol, metadata=Metadata(id="t", schema=SCHEMA), domains=domains)


def marked(mark: int) -> DomainMetadata:
    return DomainMetadata(domain=DOMAIN, configuration=json.dumps({"rowIdHighWaterMark": mark}, separators=(",", ":")))


def added(path: str, rows: int, base: int | None = None, version: int | None = None) -> AddFile:
    stats = json.dumps({"numRecords": rows})
    return AddFile(path=path, size=1, modified_ms=0, stats=stats, base_row_id=base, default_row_commit_version=version)


def test_fresh_ids_follow_the_highest_that_was_given_and_files_that_have_some_keep_them() -> None:
    actions = track_rows([added("a", 3), added("b", 2, 5, 1), added("c", 1)], tracked(9), 4)
    assert actions == (added("a", 3, 10, 4), added("b", 2, 5, 1), added("c", 1, 13, 4), marked(13))
    assert track_rows([added("a", 3)], tracked(), 0) == (added("a", 3, 0, 0), marked(2))
    assert track_rows([added("b", 2, 5, 1)], tracked(9), 4) == (added("b", 2, 5, 1),)


def test_a_commit_that_follows_others_has_its_ids_above_theirs() -> None:
    base = tracked(9)
    mine = commit(*track_rows([added("a", 3), added("b", 2, 5, 1)], base, 4))
    once = rebase_rows(mine, commit(added("x", 4, 10, 4), marked(13)), base, 5)
    assert once.actions == (added("a", 3, 14, 5), added("b", 2, 5, 1), marked(16))
    twice = rebase_rows(once, commit(), base, 6)
    assert twice.actions == (added("a", 3, 14, 6), added("b", 2, 5, 1), marked(16))


def commit(*actions: Any) -> Commit:
    return Commit(id="c", operation="WRITE", actions=tuple(actions))
