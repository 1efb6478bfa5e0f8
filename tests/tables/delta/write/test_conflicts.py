"""Two changes of a Delta table at once: whichever comes first, the rows are those of one after the other.

The second commit of each test is held up just before it is put; the other change is made whole in between.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from gapless.errors import GaplessError, InvalidValue, NotSupported
from gapless.tables.delta.table import DeltaTable
from support.delta_tables import LAYOUTS, made, ordered, racing

Change = Callable[[DeltaTable], object]


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"id": pa.array([key for key, _ in pairs], pa.int64()), "v": pa.array([v for _, v in pairs], pa.int64())})


def several_files(path: Path, properties: dict[str, str] | None = None) -> DeltaTable:
    table = made(path, rows((1, 10), (2, 20)), properties)
    table.append(rows((3, 30), (4, 40)))
    table.append(rows((5, 50)))
    return table


def upsert(*pairs: tuple[int, int]) -> Change:
    return lambda t: t.merge(rows(*pairs), "t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()


Pairs = list[tuple[int, int]]
START: Pairs = [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (5, 51)]


def upserted(*new: tuple[int, int]) -> Callable[[Pairs], Pairs]:
    def change(there: Pairs) -> Pairs:
        known = {key for key, _ in there}
        return [(key, dict(new).get(key, v)) for key, v in there] + [one for one in new if one[0] not in known]

    return change


CHANGES: dict[str, tuple[Change, Callable[[Pairs], Pairs]]] = {
    "append": (lambda t: t.append(rows((6, 60))), lambda p: [*p, (6, 60)]),
    "delete 1": (lambda t: t.delete("id = 1"), lambda p: [one for one in p if one[0] != 1]),
    "delete 2": (lambda t: t.delete("id = 2"), lambda p: [one for one in p if one[0] != 2]),
    "delete all": (lambda t: t.delete("true"), lambda p: []),
    "update 1": (lambda t: t.update({"v": "v + 1"}, where="id = 1"), lambda p: [(k, v + (k == 1)) for k, v in p]),
    "update all": (lambda t: t.update({"v": "v * 2"}), lambda p: [(k, v * 2) for k, v in p]),
    "upsert 1 7": (upsert((1, 11), (7, 70)), upserted((1, 11), (7, 70))),
    "upsert 7 8": (upsert((7, 77), (8, 80)), upserted((7, 77), (8, 80))),
    "overwrite": (lambda t: t.overwrite(rows((9, 90))), lambda p: [(9, 90)]),
    "replace 1": (
        lambda t: t.overwrite(rows((1, 100)), where="id = 1"),
        lambda p: [*(one for one in p if one[0] != 1), (1, 100)],
    ),
    "compact": (lambda t: t.compact(), lambda p: p),
    "dedup": (lambda t: t.dedup("id"), lambda p: list({k: (k, v) for k, v in reversed(p)}.values())),
    "add columns": (lambda t: t.alter.add_column(f"note_{uuid4().hex}", pa.string()), lambda p: p),
    "restore": (lambda t: t.restore(version=1), lambda p: START[:2]),
}
"""Every change, each of which can meet every other, and what it makes of rows in a list."""
BLIND = "append"


def doubled(path: Path, properties: dict[str, str]) -> DeltaTable:
    """A table with two rows of a key, so that every change has something to do."""
    table = several_files(path, properties)
    table.append(rows((5, 51)))
    return table


def held(table: DeltaTable) -> Pairs:
    return sorted((row["id"], row["v"]) for row in table.scan(columns=["id", "v"]).to_arrow().to_pylist())


@pytest.mark.parametrize("layout", ["copies", "vectors"])
@pytest.mark.parametrize("first", CHANGES)
def test_any_two_changes_are_one_after_the_other(tmp_path: Path, layout: str, first: str) -> None:
    """The order is that of the versions, or, of a blind append under WriteSerializable, as if it came after."""
    one, model = CHANGES[first]
    for number, (second, (other, after)) in enumerate(CHANGES.items()):
        path = tmp_path / str(number)
        doubled(path, LAYOUTS[layout])
        other(racing(path, lambda path=path: one(DeltaTable.open(path))))  # type: ignore[misc]
        serial = [sorted(after(model(START)))]
        if first == BLIND:
            serial.append(sorted(model(after(START))))
        assert held(DeltaTable.open(path)) in serial, f"{first}, then {second}"


def test_serializable_tables_heed_appends(tmp_path: Path) -> None:
    for level, left in (("Serializable", []), ("WriteSerializable", [(6, 60)])):
        path = tmp_path / level
        several_files(path, {"delta.isolationLevel": level})
        racing(path, lambda path=path: DeltaTable.open(path).append(rows((6, 60)))).delete("id > 0")  # type: ignore[misc]
        assert held(DeltaTable.open(path)) == left


def test_maint_09_delta_a_stale_compaction_brings_no_row_back(tmp_path: Path) -> None:
    """The plan is made at one version, the rows change, and the compaction is finished through another handle."""
    for layout in ("copies", "vectors"):
        path = tmp_path / layout
        several_files(path, LAYOUTS[layout])

        def first(path: Path = path) -> None:
            DeltaTable.open(path).delete("id = 2")
            upsert((1, 111))(DeltaTable.open(path))
            DeltaTable.open(path).append(rows((6, 60)))

        racing(path, first).compact()
        assert held(DeltaTable.open(path)) == [(1, 111), (3, 30), (4, 40), (5, 50), (6, 60)]


def test_two_compactions_double_nothing(tmp_path: Path) -> None:
    several_files(tmp_path)
    racing(tmp_path, lambda: DeltaTable.open(tmp_path).compact()).compact()
    assert held(DeltaTable.open(tmp_path)) == [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]
    assert len(DeltaTable.open(tmp_path).files()) == 1


def test_an_operation_that_another_process_applied_meanwhile_is_not_applied_again(tmp_path: Path) -> None:
    several_files(tmp_path)

    def add(table: DeltaTable) -> object:
        return table.update({"v": "v + 1"}, operation_id="raise")

    report = racing(tmp_path, lambda: add(DeltaTable.open(tmp_path))).update({"v": "v + 1"}, operation_id="raise")
    assert report.already_applied
    assert report.updated_rows == 5
    assert held(DeltaTable.open(tmp_path)) == [(1, 11), (2, 21), (3, 31), (4, 41), (5, 51)]


def test_a_constraint_that_came_first_holds_for_what_follows(tmp_path: Path) -> None:
    several_files(tmp_path)

    def constrain() -> None:
        DeltaTable.open(tmp_path).alter.add_constraint("small", "v < 55")

    with pytest.raises(InvalidValue, match="small"):
        racing(tmp_path, constrain).update({"v": "v + 10"})
    assert held(DeltaTable.open(tmp_path)) == [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]


def test_a_table_that_became_append_only_meanwhile_refuses(tmp_path: Path) -> None:
    several_files(tmp_path)

    def close() -> None:
        DeltaTable.open(tmp_path).alter.set_properties({"delta.appendOnly": True})

    with pytest.raises(NotSupported):
        racing(tmp_path, close).delete("id = 1")
    assert len(ordered(DeltaTable.open(tmp_path))) == 5


def test_rows_changed_after_the_feed_was_enabled_are_told(tmp_path: Path) -> None:
    several_files(tmp_path)

    def enable() -> None:
        DeltaTable.open(tmp_path).alter.set_properties({"delta.enableChangeDataFeed": True})

    table = racing(tmp_path, enable)
    table.update({"v": "v + 1"}, where="id = 1")
    told = table.changes(table.version, table.version).to_arrow().to_pylist()
    assert sorted((row["_change_type"], row["v"]) for row in told) == [("update_postimage", 11), ("update_preimage", 10)]


def test_a_change_that_lost_leaves_no_file_behind(tmp_path: Path) -> None:
    several_files(tmp_path)
    racing(tmp_path, lambda: DeltaTable.open(tmp_path).update({"v": "v + 1"}, where="id = 1")).update(
        {"v": "v * 2"}, where="id = 2"
    )
    table = DeltaTable.open(tmp_path)
    assert held(table) == [(1, 11), (2, 40), (3, 30), (4, 40), (5, 50)]
    ever = {action.path for version in range(table.version + 1) for action in (one.action for one in table.at(version).files())}
    assert {path.name for path in tmp_path.glob("*.parquet")} == ever


def test_a_bad_condition_fails_before_anything_is_tried(tmp_path: Path) -> None:
    several_files(tmp_path)
    table = racing(tmp_path, lambda: pytest.fail("no commit is tried"))
    with pytest.raises(GaplessError):
        table.delete("nope = 1")
