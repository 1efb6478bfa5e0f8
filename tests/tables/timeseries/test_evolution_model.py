"""Columns that change under appends, against rows that are kept by column identity; every version is read again at the end.

The model knows no names in its rows: a value hangs on the identity that its column, or nested field, was born with.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

import gapless as gl
from gapless.errors import InvalidChange, SchemaMismatch

T0 = datetime(2024, 1, 1, tzinfo=UTC)
NAMES = ["a", "b", "a~2", "a.b"]
CHAINS = [
    [pa.int8(), pa.int16(), pa.int32(), pa.int64()],
    [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    [pa.int16(), pa.float32(), pa.float64()],
    [pa.decimal128(4, 2), pa.decimal128(9, 2), pa.decimal256(50, 2)],
    [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us")],
    [pa.time32("s"), pa.time32("ms"), pa.time64("us")],
    [pa.string()],
    [pa.bool_()],
    [pa.date32(), pa.date64()],
]
TYPES = sorted({type_ for chain in CHAINS for type_ in chain}, key=str)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-100, 100),
    "uint": st.integers(0, 200),
    "float": st.sampled_from([0.0, -1.5, 0.25, 7.0]),
    "halffloat": st.sampled_from([0.0, -1.5]),
    "double": st.sampled_from([0.0, -1.5, 0.25, 7.0]),
    "decimal": st.sampled_from([Decimal("0.00"), Decimal("-12.25"), Decimal("99.99")]),
    "timestamp": st.integers(-10, 10).map(lambda s: datetime(2000, 1, 1) + timedelta(seconds=s)),
    "time": st.integers(0, 59).map(lambda s: datetime(2000, 1, 1, 1, 2, s).time()),
    "string": st.sampled_from(["", "x", "päivä"]),
    "bool": st.booleans(),
    "date": st.integers(-3, 3).map(lambda d: (datetime(2000, 1, 1) + timedelta(days=d)).date()),
}


def values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    return next(found for start, found in VALUES.items() if str(type_).startswith(start))


@dataclass(frozen=True)
class Node:
    """A column or nested field: a leaf has a type, a struct (or a list of structs) has fields."""

    id: int
    name: str
    type: pa.DataType | None = None
    fields: tuple[Node, ...] = ()
    listed: bool = False
    default: Any = None

    def arrow(self) -> pa.Field:
        if self.type is not None:
            return pa.field(self.name, self.type)
        inner = pa.struct([one.arrow() for one in self.fields])
        return pa.field(self.name, pa.list_(inner) if self.listed else inner)

    def told(self, row: dict[int, Any]) -> Any:
        """The value that a row (by identities) has here, under the names of now."""
        value = row.get(self.id, self.default)
        if self.type is not None or value is None:
            return value
        parts = [{one.name: one.told(part) for one in self.fields} for part in (value if self.listed else [value])]
        return parts if self.listed else parts[0]


@dataclass
class Seen:
    """A version as it was when it was new."""

    schema: pa.Schema
    rows: list[dict[str, Any]] = field(default_factory=list)


class Evolving(RuleBasedStateMachine):
    """One table, one model."""

    places = itertools.count()

    @initialize(interval=st.sampled_from([0, 3]))
    def create(self, interval: int) -> None:
        self.place = f"memory://evolving-{next(self.places)}"
        self.table = gl.create(
            self.place, index="ts", bucket="1h", properties={"checkpoint_interval": interval},
            schema=pa.schema([("ts", pa.timestamp("us", "UTC"))]),
        )  # fmt: skip
        self.ids = itertools.count()
        self.nodes: list[Node] = []
        self.rows: list[dict[int, Any]] = []
        self.hours = itertools.count()
        self.order = ["ts"]
        self.seen: dict[int, Seen] = {}

    # -- the model ---------------------------------------------------------------------------------------------------

    def schema(self) -> pa.Schema:
        known = {node.name: node.arrow() for node in self.nodes}
        known["ts"] = pa.field("ts", pa.timestamp("us", "UTC"), nullable=False)
        return pa.schema([known[name] for name in self.order])

    def expected(self) -> list[dict[str, Any]]:
        found = []
        for hour, row in enumerate(self.rows):
            told = {node.name: node.told(row) for node in self.nodes} | {"ts": T0 + timedelta(hours=hour)}
            found.append({name: told[name] for name in self.order})
        return found

    def structs(self) -> list[Node]:
        return [node for node in self.nodes if node.type is None]

    def swap(self, old: Node, *new: Node) -> None:
        """Put what a node has become in its place, in the table's own order too."""
        at = self.nodes.index(old)
        self.nodes[at : at + 1] = new
        place = self.order.index(old.name)
        self.order[place : place + 1] = [one.name for one in new]

    # -- changes -----------------------------------------------------------------------------------------------------

    @rule(data=st.data(), name=st.sampled_from(NAMES), nest=st.sampled_from(["leaf", "leaf", "struct", "list"]))
    def add(self, data: st.DataObject, name: str, nest: str) -> None:
        leaf = self.draw_leaf(data, name if nest == "leaf" else "x", default=nest == "leaf")
        node = leaf if nest == "leaf" else Node(next(self.ids), name, fields=(leaf,), listed=nest == "list")
        after = data.draw(st.sampled_from([None, *self.order]))
        if name in self.order:
            with pytest.raises(InvalidChange, match="exists already"):
                self.table.add_column((name,), node.arrow().type)
            return
        self.table.add_column((name,), node.arrow().type, default=node.default, after=after)
        self.nodes.append(node)
        self.order.insert(len(self.order) if after is None else self.order.index(after) + 1, name)

    @precondition(lambda self: self.structs())
    @rule(data=st.data(), name=st.sampled_from(NAMES[:2]))
    def add_nested(self, data: st.DataObject, name: str) -> None:
        parent = data.draw(st.sampled_from(self.structs()))
        if name in [one.name for one in parent.fields]:
            return
        leaf = self.draw_leaf(data, name, default=True)
        self.table.add_column((*self.path(parent), name), leaf.type, default=leaf.default)
        self.swap(parent, replace(parent, fields=(*parent.fields, leaf)))

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), new=st.sampled_from(NAMES))
    def rename(self, data: st.DataObject, new: str) -> None:
        node = data.draw(st.sampled_from(self.nodes))
        if new in self.order and new != node.name:
            with pytest.raises(InvalidChange, match="exists already"):
                self.table.rename_column((node.name,), new)
            return
        self.table.rename_column((node.name,), new)
        self.swap(node, replace(node, name=new))

    @precondition(lambda self: self.structs())
    @rule(data=st.data(), new=st.sampled_from(NAMES[:2]))
    def rename_nested(self, data: st.DataObject, new: str) -> None:
        parent = data.draw(st.sampled_from(self.structs()))
        child = data.draw(st.sampled_from(parent.fields))
        if new in [one.name for one in parent.fields]:
            return
        self.table.rename_column((*self.path(parent), child.name), new)
        fields = tuple(replace(one, name=new) if one is child else one for one in parent.fields)
        self.swap(parent, replace(parent, fields=fields))

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.nodes))
        self.table.drop_column((node.name,))
        self.swap(node)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def drop_and_add_again(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.nodes))
        leaf = self.draw_leaf(data, node.name, default=True)
        place = self.order.index(node.name)
        self.table.drop_column((node.name,))
        self.table.add_column((node.name,), leaf.type, default=leaf.default, after=self.order[place - 1] if place else None)
        self.swap(node)
        self.nodes.append(leaf)
        self.order.insert(place or len(self.order), node.name)

    @precondition(lambda self: self.structs())
    @rule(data=st.data())
    def drop_nested(self, data: st.DataObject) -> None:
        parent = data.draw(st.sampled_from(self.structs()))
        child = data.draw(st.sampled_from(parent.fields))
        if len(parent.fields) == 1:
            with pytest.raises(InvalidChange, match="last field"):
                self.table.drop_column((*self.path(parent), child.name))
            return
        self.table.drop_column((*self.path(parent), child.name))
        self.swap(parent, replace(parent, fields=tuple(one for one in parent.fields if one is not child)))

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def widen(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.nodes))
        leaf = node if node.type is not None else data.draw(st.sampled_from(node.fields))
        path = (node.name,) if node is leaf else (*self.path(node), leaf.name)
        wanted = data.draw(st.sampled_from([*self.wider(leaf.type), *TYPES[:2]]))
        if wanted not in self.wider(leaf.type):
            if wanted != leaf.type and not self.fits(leaf.type, wanted):
                with pytest.raises(InvalidChange, match="cannot be widened"):
                    self.table.widen_column(path, wanted)
            return
        self.table.widen_column(path, wanted)
        changed = replace(leaf, type=wanted)
        kept = tuple(changed if one is leaf else one for one in node.fields)
        self.swap(node, changed if node is leaf else replace(node, fields=kept))

    @rule(data=st.data())
    def reorder(self, data: st.DataObject) -> None:
        first = data.draw(st.lists(st.sampled_from(self.order), unique=True))
        self.table.reorder_columns(first)
        self.order = [*first, *(name for name in self.order if name not in first)]

    @rule(data=st.data(), count=st.integers(1, 3))
    def append(self, data: st.DataObject, count: int) -> None:
        """Rows in some of the columns, and in some fields of those."""
        chosen = [node for node in self.nodes if data.draw(st.booleans())]
        chosen = [replace(node, fields=self.some(data, node.fields)) for node in chosen]
        rows = [{node.id: self.draw_value(data, node) for node in chosen} for _ in range(count)]
        fields = [pa.field("ts", pa.timestamp("us", "UTC")), *(node.arrow() for node in chosen)]
        columns = [
            [T0 + timedelta(hours=next(self.hours)) for _ in rows],
            *([node.told(row) for row in rows] for node in chosen),
        ]
        self.table.append(
            pa.table([pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)], schema=pa.schema(fields))
        )
        self.rows += rows

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def append_under_an_old_name(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.nodes))
        new = "new"
        self.table.rename_column((node.name,), new)
        before = self.table.version
        with pytest.raises(SchemaMismatch, match=r"it is called .*'new'.* now"):
            self.table.append({"ts": [T0 + timedelta(days=9999)], node.name: [None]})
        assert self.table.version == before
        self.table.rename_column(new, node.name)

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def reads(self) -> None:
        version = self.table.version
        if version in self.seen:
            return
        self.seen[version] = Seen(self.schema(), self.expected())
        found = self.table.scan(order="index").to_arrow()
        assert found.schema.equals(self.schema(), check_metadata=True)
        assert found.to_pylist() == self.expected()
        for node in self.nodes:
            self.filters(node)

    def filters(self, node: Node) -> None:
        """Null or not, and each value there is: with pruning by the statistics of old segments."""
        if node.type is None or "." in node.name:
            return
        told = [row[node.name] for row in self.expected()]
        quoted = f'"{node.name}"'
        assert self.table.scan(where=f"{quoted} is null").count() == sum(value is None for value in told)
        for value in {value for value in told if isinstance(value, int | float | Decimal) and not isinstance(value, bool)}:
            assert self.table.scan(where=f"{quoted} = {value}").count() == told.count(value)
            assert self.table.scan(where=f"{quoted} > {value}").count() == sum(v is not None and v > value for v in told)

    def teardown(self) -> None:
        if not hasattr(self, "table"):
            return
        fresh = gl.open(self.place)
        assert fresh.scan(order="index").to_arrow().to_pylist() == self.expected()
        for version, seen in self.seen.items():
            old = fresh.at(version=version).scan(order="index").to_arrow()
            assert old.schema.equals(seen.schema, check_metadata=True)
            assert old.to_pylist() == seen.rows
        assert not [finding for finding in fresh.verify(deep=True).findings if finding.severity != "note"]

    # -- drawing -----------------------------------------------------------------------------------------------------

    def draw_leaf(self, data: st.DataObject, name: str, *, default: bool) -> Node:
        type_ = data.draw(st.sampled_from(TYPES))
        value = data.draw(st.one_of(st.none(), values(type_))) if default else None
        return Node(next(self.ids), name, type=type_, default=value)

    def draw_value(self, data: st.DataObject, node: Node) -> Any:
        if data.draw(st.integers(0, 3)) == 0:
            return None
        if node.type is not None:
            return data.draw(values(node.type))
        parts = [
            {one.id: self.draw_value(data, one) for one in node.fields}
            for _ in range(data.draw(st.integers(0, 2)) if node.listed else 1)
        ]
        return parts if node.listed else parts[0]

    def some(self, data: st.DataObject, fields: tuple[Node, ...]) -> tuple[Node, ...]:
        kept = tuple(one for one in fields if data.draw(st.booleans()))
        return kept or fields

    def path(self, node: Node) -> tuple[str, ...]:
        return (node.name, "element") if node.listed else (node.name,)

    def wider(self, type_: pa.DataType) -> list[pa.DataType]:
        """What the chains say it may become."""
        return [later for chain in CHAINS if type_ in chain for later in chain[chain.index(type_) + 1 :]]

    def fits(self, old: pa.DataType, new: pa.DataType) -> bool:
        """Whether a widening that no chain names is exact all the same: by its numbers of bits."""
        whole, unsigned = pa.types.is_integer, pa.types.is_unsigned_integer
        if whole(old) and whole(new):
            return bool(unsigned(old) and new.bit_width > old.bit_width)
        return bool((whole(old) and pa.types.is_floating(new)) or pa.types.is_date(old) or pa.types.is_floating(old))


def test_columns_are_what_they_were_born_as() -> None:
    few = settings(
        max_examples=max(10, settings().max_examples // 4), stateful_step_count=25,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    run_state_machine_as_test(Evolving, settings=few)
