import subprocess
import sys
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.model.convert import Misfit, cast_leaves, convert
from gapless.model.types import stored_type

MAP = pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int8()))

CASES = [
    ([[("a", 1)], None, [("b", 2), ("c", None)], []], MAP, pa.map_(pa.string(), pa.int16())),
    ([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2), pa.list_(pa.int16(), 2)),
    ([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2), pa.large_list(pa.int16())),
    ([[1, 2], None, [3, None], []], pa.list_view(pa.int8()), pa.list_(pa.int16())),
    ([[1, 2], None, [3, None], []], pa.large_list_view(pa.int8()), pa.large_list(pa.int8())),
    ([[1, 2], None, [3, None]], pa.large_list(pa.int8()), pa.list_(pa.int16(), 2)),
    ([[[1, 2], None], None, [[3, None], [4, 5]]], pa.list_(pa.list_(pa.int8()), 2), pa.list_(pa.list_(pa.int16(), 2))),
    ([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int64())])),
    (["x", None, ""], pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
    ([1, 1, None], pa.run_end_encoded(pa.int32(), pa.int8()), pa.int64()),
]


@pytest.mark.parametrize(
    ("values", "source", "target"), CASES, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
def test_values_are_the_same_in_whole_and_in_slices(values: list[object], source: pa.DataType, target: pa.DataType) -> None:
    array = pa.array(values, source)
    for start in range(len(values) + 1):
        for length in range(len(values) + 1 - start):
            found = convert(array.slice(start, length), target)
            found.validate(full=True)
            assert found.type.equals(target, check_metadata=True)
            assert found.to_pylist() == values[start : start + length]


@pytest.mark.parametrize(("view", "plain"), [(pa.string_view(), pa.string()), (pa.binary_view(), pa.binary())])
def test_categories_are_opened_whose_names_are_views(view: pa.DataType, plain: pa.DataType) -> None:
    values = pa.array(["x", "y", None]).cast(pa.binary()).cast(view)
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 2], pa.uint8()), values)
    for start in range(5):
        expected = pa.array(["y", None, "x", None]).cast(plain)
        assert convert(array.slice(start), plain).equals(expected.slice(start))


def test_struct_fields_are_matched_by_name_added_as_null_and_left_out() -> None:
    array = pa.array([{"a": 1, "z": 2}, None], pa.struct([("a", pa.int8()), ("z", pa.int8())]))
    target = pa.struct([("b", pa.list_(pa.string())), ("a", pa.int8())])
    assert convert(array, target).to_pylist() == [{"b": None, "a": 1}, None]


def test_what_lies_behind_a_null_map_is_left_behind() -> None:
    array = pa.MapArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), pa.array(list("abcd")), pa.array([1, 2, 3, 4]),
                                    type=pa.map_(pa.string(), pa.int64()), mask=pa.array([False, True, False]))  # fmt: skip
    for start in range(3):
        found = convert(array.slice(start), pa.map_(pa.string(), pa.int8()))
        found.validate(full=True)
        assert found.to_pylist() == [[("a", 1)], None, [("d", 4)]][start:]


def test_extensions_are_their_storage() -> None:
    storage = pa.array([b"0" * 16, None], pa.binary(16))
    assert convert(pa.ExtensionArray.from_storage(pa.uuid(), storage), pa.binary(16)).equals(storage)


def test_the_same_type_is_the_same_array() -> None:
    array = pa.array([[1], None])
    assert convert(array, array.type) is array


@pytest.mark.parametrize("row", [0, 1, 2, 3, 6])
def test_the_first_bad_row_is_found(row: int) -> None:
    values = [1, None, 2, 3, 4, 5, 6]
    values[row] = 2**40
    with pytest.raises(Misfit) as caught:
        convert(pa.array([*values, 2**41]), pa.int32())
    assert (caught.value.row, caught.value.value) == (row, pa.scalar(2**40))


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (2**63, pa.uint64(), pa.int64()),
        (-1, pa.int64(), pa.uint64()),
        (-1, pa.int8(), pa.uint64()),
        (256, pa.int16(), pa.uint8()),
        (3_000_000, pa.int32(), pa.time32("ms")),
    ],
    ids=str,
)
def test_integers_never_wrap(value: int, source: pa.DataType, target: pa.DataType) -> None:
    array = pa.array([value], source)
    with pytest.raises(Misfit):
        convert(array.view(pa.time32("s")) if pa.types.is_time(target) else array, target)


def test_a_null_that_may_not_be_is_found_only_where_its_parent_is() -> None:
    array = pa.array([None, {"a": 1}, {"a": None}], pa.struct([("a", pa.int8())]))
    target = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    found = convert(array.slice(0, 2), target)
    assert (found.to_pylist(), found.field("a").null_count) == ([None, {"a": 1}], 0)
    with pytest.raises(Misfit) as caught:
        convert(array, target)
    assert caught.value.row == 2
    with pytest.raises(Misfit) as caught:
        convert(array, pa.struct([("a", pa.int8()), pa.field("b", pa.int8(), nullable=False)]))
    assert caught.value.row == 1
    strict = pa.list_(pa.field("item", pa.int8(), nullable=False))
    with pytest.raises(Misfit) as caught:
        convert(pa.array([[1], None, [], [None]], pa.list_(pa.int8())), strict)
    assert caught.value.row == 3


STRICT = [
    pa.bool_(), pa.int8(), pa.float16(), pa.string(), pa.large_binary(), pa.binary(3), pa.decimal128(5, 2), pa.decimal256(60, 1),
    pa.date32(), pa.timestamp("ns", "UTC"), pa.list_(pa.field("x", pa.int8(), nullable=False)), pa.large_list(pa.string()),
    pa.map_(pa.string(), pa.int8()), pa.list_(pa.field("x", pa.int8(), nullable=False), 2),
    pa.struct([pa.field("s", pa.string(), nullable=False), pa.field("l", pa.list_(pa.int8()))]),
]  # fmt: skip


@pytest.mark.parametrize("type_", STRICT, ids=str)
@pytest.mark.parametrize(
    "nest", [lambda f: pa.struct([f]), lambda f: pa.list_(f, 2), lambda f: pa.struct([("o", pa.struct([f]))])]
)
def test_a_file_holds_never_null_children_below_null_parents(
    type_: pa.DataType, nest: Callable[[pa.Field], pa.DataType]
) -> None:
    target = nest(pa.field("x", type_, nullable=False))
    found = convert(convert(pa.nulls(2, target), target), stored_type(target))
    found.validate(full=True)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"v": found}), sink)
    assert pq.read_table(pa.BufferReader(sink.getvalue())).column("v").to_pylist() == [None, None]


def test_values_are_not_dropped_for_the_type_null() -> None:
    assert convert(pa.array([None], pa.int8()), pa.null()).equals(pa.nulls(1))
    with pytest.raises(Misfit):
        convert(pa.array([1]), pa.null())


CASTS = [
    ([[1.0, None, 3.0], None], pa.list_(pa.float32()), pa.list_(pa.float32(), 3)),
    ([[b"ab"], None, []], pa.list_(pa.binary()), pa.list_(pa.binary(2))),
    ([{"b": 1, "a": [2]}, None], pa.struct([("b", pa.int16()), ("a", pa.list_(pa.int16()))]),
     pa.struct([("a", pa.list_(pa.uint8())), ("b", pa.uint8())])),
    ([[("k", [1, 2])], None, []], pa.map_(pa.string(), pa.list_(pa.int32())), pa.map_(pa.string(), pa.list_(pa.uint16(), 2))),
    ([[[1]], None, [None]], pa.list_view(pa.large_list_view(pa.int8())), pa.list_(pa.list_(pa.decimal128(5, 0)))),
    ([7, None], pa.decimal128(20, 0), pa.uint64()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "source", "target"), CASTS, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
def test_leaves_are_cast_below_lists_maps_and_structs(values: list[object], source: pa.DataType, target: pa.DataType) -> None:
    array = pa.array(values, source)
    for start in range(len(values) + 1):
        found = cast_leaves(array.slice(start), target)
        found.validate(full=True)
        assert found.type == target
        assert found.to_pylist() == values[start:]


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([[1], [300]], pa.list_(pa.int16()), pa.list_(pa.uint8())),
        ([[1.0], [1.0, 2.0]], pa.list_(pa.float32()), pa.list_(pa.float32(), 1)),
        ([{"a": -1}], pa.struct([("a", pa.int16())]), pa.struct([("a", pa.uint8())])),
        ([b"abc"], pa.binary(), pa.binary(2)),
    ],
)  # fmt: skip
def test_leaves_that_do_not_survive_a_cast_are_refused(values: list[object], source: pa.DataType, target: pa.DataType) -> None:
    with pytest.raises(Misfit):
        cast_leaves(pa.array(values, source), target)


CRASH = """
import pyarrow as pa
from gapless.model.convert import cast_leaves
for child, buffers in ((pa.float32(), 2), (pa.bool_(), 2), (pa.struct([("a", pa.int8())]), 1), (pa.list_(pa.int8()), 2)):
    below = [pa.array([], one.type) for one in (child if pa.types.is_struct(child) else [])] or None
    below = [pa.array([], pa.int8())] if pa.types.is_list(child) else below
    empty = pa.Array.from_buffers(child, 0, [None] * buffers, children=below)
    lists = pa.Array.from_buffers(pa.list_(child), 1, [pa.py_buffer(b"\\0"), pa.py_buffer(b"\\0" * 8)], children=[empty])
    for target in (pa.list_(child, 3), pa.large_list(child), pa.list_(pa.list_(child, 3), 2)):
        nested = pa.types.is_fixed_size_list(target.value_type)
        source = pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), lists.slice(1)) if nested else lists
        found = cast_leaves(source.take(pa.array([None], pa.int32())) if nested else source, target)
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (target, [None]), target
print("whole")
"""


def test_a_list_whose_child_has_no_buffers_crashes_nothing() -> None:
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", CRASH], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr[-2000:]
