"""Which files of a Delta table are written together."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gapless.formats.delta.actions import AddFile, DeletionVector
from gapless.tables.delta.care.compact_plan import CurveOrder, DeltaBin, plan_curve, plan_packing

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
