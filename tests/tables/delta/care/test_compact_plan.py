"""Which files of a Delta table are written together."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gapless.formats.delta.actions import AddFile, DeletionVector
from gapless.tables.delta.care.compact_plan import CurveOrder, DeltaBin, plan_compaction, plan_curve, plan_packing

TARGET = 100
VECTOR = DeletionVector(storage="i", path_or_inline="x", size=1, cardinality=1)


def files(*sizes: int, day: str = "a", first: int = 0) -> list[AddFile]:
    return [
        AddFile(path=f"{day}-{first + at}", partition_values={"day": day}, size=size, modified_ms=0)
        for at, size in enumerate(sizes)
    ]


def sizes(bins: Iterable[DeltaBin]) -> list[list[int]]:
    return [[file.size for file in one.files] for one in bins]


def test_small_files_fill_bins_in_their_order() -> None:
    assert sizes(plan_packing(files(40, 30, 60, 40, 10, 49, 1), TARGET)) == [[40, 30, 40], [10, 49, 1]]


def test_files_of_at_least_half_the_target_stay() -> None:
    assert plan_packing(files(50, 99, 100, 1_000), TARGET) == ()


def test_one_small_file_alone_stays() -> None:
    assert plan_packing(files(50, 1, 300), TARGET) == ()


def test_partitions_do_not_mix() -> None:
    both = [file for pair in zip(files(1, 1), files(1, 1, day="b"), strict=True) for file in pair]
    assert [{file.partition_values["day"] for file in one.files} for one in plan_packing(both, TARGET)] == [{"a"}, {"b"}]
    assert plan_packing([*files(1), *files(1, day="b")], TARGET) == ()


def test_deleted_rows_are_purged_from_files_of_any_size() -> None:
    large = AddFile(path="large", size=500, modified_ms=0, deletion_vector=VECTOR)
    assert sizes(plan_packing([large], TARGET)) == [[500]]


@given(st.lists(st.integers(1, 150), max_size=40))
def test_maint_12_delta_a_plan_makes_fewer_files_until_there_is_nothing_to_do(given_sizes: list[int]) -> None:
    """Written together, files keep their size here; what comes out is planned again."""
    table, rounds = files(*given_sizes), 0
    while bins := plan_packing(table, TARGET):
        before = len(table)
        gone = {key for one in bins for key in one.keys}
        made = [
            AddFile(path=f"{rounds}-{at}", partition_values={"day": "a"}, size=one.size, modified_ms=0)
            for at, one in enumerate(bins)
        ]
        table = [file for file in table if file.key not in gone] + made
        rounds += 1
        assert len(table) < before
    assert sum(file.size for file in table) == sum(given_sizes)
    assert sum(2 * file.size < TARGET for file in table) <= 1
    assert rounds <= 1, "bins of about the target are not small"


def test_a_plan_says_why_files_go_and_why_they_stay() -> None:
    deleted = AddFile(path="deleted", size=500, modified_ms=0, deletion_vector=VECTOR, stats='{"numRecords":9}')
    told = [structs.replace(file, stats='{"numRecords":5}') for file in files(10, 20, 90)]
    away, alone = files(1, first=8)[0], files(1, day="b")[0]
    found = plan_compaction([*told, deleted, away, alone], [*told, deleted, alone], TARGET)
    assert [(one.paths, one.size, one.rows, dict(one.causes)) for one in found.bins] == [
        (("a-0", "a-1"), 30, 10, {"small": 2}),
        (("deleted",), 500, 8, {"deleted rows": 1}),
    ]
    assert found.left == {"a-2": "large enough", "a-8": "outside the filter", "b-0": "alone"}
    assert (found.files, found.size) == (3, 530)
    assert found.explain().splitlines() == [
        "2 bins: 3 files of 6",
        "  1. 2 files, 10 rows, 0.0 MiB towards 0.0 MiB each (2 small)",
        "  2. 1 file, 8 rows, 0.0 MiB towards 0.0 MiB each (1 deleted rows)",
        "  left: 1 file large enough as they are",
        "  left: 1 file that cannot hold a row for which `where` is true",
        "  left: 1 file small, but with no other small one of the partition to go with",
    ]
    assert plan_compaction(files(1, 2), files(1, 2), TARGET).bins[0].rows is None, "no statistics, no count"


@given(st.lists(st.tuples(st.integers(1, 150), st.sampled_from("ab"), st.booleans()), max_size=30))
def test_a_plan_has_each_file_once(given_files: list[tuple[int, str, bool]]) -> None:
    table = [
        AddFile(path=str(at), partition_values={"day": day}, size=size, modified_ms=0)
        for at, (size, day, _) in enumerate(given_files)
    ]
    selected = [file for file, (_, _, wanted) in zip(table, given_files, strict=True) if wanted]
    found = plan_compaction(table, selected, TARGET)
    assert found.bins == plan_packing(selected, TARGET)
    named = [path for one in found.bins for path in one.paths]
    assert sorted([*named, *found.left]) == sorted(file.path for file in table)
    assert {path for path, why in found.left.items() if why == "outside the filter"} == {file.path for file in table} - {
        file.path for file in selected
    }
    assert all(
        (2 * int(file.size) < TARGET) == (found.left[file.path] == "alone") for file in selected if file.path in found.left
    )


def test_a_curve_takes_each_partition_whole_once() -> None:
    order = CurveOrder(columns=("x", "y"), curve="hilbert")
    plain = [*files(1, 500), *files(9, day="b")]
    assert sizes(plan_curve(plain, order)) == [[1, 500], [9]]
    laid = [
        AddFile(path=f"l{at}", partition_values={"day": "a"}, size=1, modified_ms=0, tags=order.tags("one")) for at in range(2)
    ]
    assert plan_curve(laid, order) == ()
    assert sizes(plan_curve([*laid, *files(7)], order)) == [[1, 1, 7]], "a new file is ordered with the others"
    for other in (
        CurveOrder(columns=("x",), curve="hilbert"),
        CurveOrder(columns=("x", "y"), curve="z"),
        CurveOrder(columns=("y", "x"), curve="hilbert"),
    ):
        assert len(plan_curve(laid, other)) == 1
    two = [laid[0], AddFile(path="m", partition_values={"day": "a"}, size=1, modified_ms=0, tags=order.tags("two"))]
    assert len(plan_curve(two, order)) == 1, "two curves are not one"
    deleted = AddFile(
        path="d", partition_values={"day": "a"}, size=1, modified_ms=0, tags=order.tags("one"), deletion_vector=VECTOR
    )
    assert len(plan_curve([laid[0], deleted], order)) == 1
