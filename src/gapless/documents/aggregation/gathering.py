"""Groups in the making: what is gathered of each, in memory, and by parts in a file where there is too much of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple

from gapless.documents.aggregation.stages import Document, Running
from gapless.documents.expressions.accumulators import Accumulator
from gapless.documents.expressions.scope import Evaluate, Scope, scope_of
from gapless.documents.spill.blocks import packed
from gapless.documents.spill.memory import Memory, size_of
from gapless.documents.spill.parts import COUNT, Parts
from gapless.documents.spill.sorter import Sorter
from gapless.documents.values.codec import ID
from gapless.documents.values.order import MISSING, Key, sort_key

_GROUP_BYTES, _STATE_BYTES = 500, 300
"""About what a group takes, and what is gathered of it by one accumulator."""
_UNPACKED = 3
"""So many bytes objects take of one of those that they are packed into."""
_DEEPEST = 4
"""So often parts are divided again: then a part has but one group, or groups whose keys have one hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """How values of documents are gathered."""

    operator: str
    fresh: Callable[[Scope], Accumulator]
    """An empty accumulator, of the scope of a group's `_id`."""
    value: Evaluate
    """What is gathered of a document."""


class Row(NamedTuple):
    """What a document brings to its group; or a group as far as it was gathered."""

    key: Key
    seen: int
    """The number of the document, or of the first one of the group."""
    value: Any
    """What the group is called."""
    values: list[Any] | None
    states: list[Accumulator] | None


class Group(NamedTuple):
    """A group that was gathered."""

    seen: int
    value: Any
    states: list[Accumulator]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """How documents are gathered into groups, which come out in the order of their first documents."""

    by: Evaluate
    fields: Mapping[str, Gather]
    at: Running

    def run(self, documents: Iterator[Document]) -> Iterator[Document]:
        """A document for each group. Raises InvalidValue, StoreError."""
        memory, groups = self.at.memory, dict[Key, Group]()
        rest = self._fill(groups, self._rows(documents), memory, 0)
        if rest is None:
            yield from map(self._document, groups.values())
            return
        with Sorter(memory) as sorter:
            for one in self._by_parts(groups, rest, memory, 0):
                sorter.add(one.seen.to_bytes(8, "big"), self._document(one))
            for _, found in sorter:
                yield found

    def _rows(self, documents: Iterator[Document]) -> Iterator[Row]:
        values = [one.value for one in self.fields.values()]
        variables = self.at.variables
        for seen, one in enumerate(documents):
            scope = scope_of(one, variables)
            value = self.by(scope)
            if value is MISSING:
                value = None
            yield Row(sort_key(value), seen, value, [each(scope) for each in values], None)

    def _fill(self, groups: dict[Key, Group], rows: Iterator[Row], memory: Memory, depth: int) -> Iterator[Row] | None:
        """Gather rows until memory is full: then the rows that are left, else None."""
        held = 0
        for key, seen, value, values, states in rows:
            found = groups.get(key)
            if found is None:
                found = groups[key] = Group(seen, value, self._fresh(value) if states is None else states)
                held += _GROUP_BYTES + 2 * size_of(value) + _STATE_BYTES * len(found.states)
                held += sum(map(size_of, values)) if values is not None else _UNPACKED * len(packed(found.states))
            if values is not None:
                for one, state in zip(values, found.states, strict=True):
                    if not isinstance(state, Sized):
                        state.add(one)
                        continue
                    count = len(state)
                    state.add(one)
                    if len(state) > count:
                        held += 2 * size_of(one)
            if held > memory.limit and len(groups) > 1 and depth < _DEEPEST:
                return rows
        return None

    def _by_parts(self, groups: dict[Key, Group], rest: Iterator[Row], memory: Memory, depth: int) -> Iterator[Group]:
        """All groups, in any order."""
        with Parts(memory) as parts:
            for key, (seen, value, states) in groups.items():
                parts.add(hash((depth, key)) % COUNT, Row(key, seen, value, None, states))
            groups.clear()
            for row in rest:
                parts.add(hash((depth, row.key)) % COUNT, row)
            for part in range(COUNT):
                of_part = dict[Key, Group]()
                left = self._fill(of_part, parts.read(part), memory, depth + 1)
                yield from of_part.values() if left is None else self._by_parts(of_part, left, memory, depth + 1)

    def _fresh(self, value: Any) -> list[Accumulator]:
        scope: Scope = scope_of(value, self.at.variables)
        return [one.fresh(scope) for one in self.fields.values()]

    def _document(self, group: Group) -> Document:
        return {ID: group.value, **{name: state.result() for name, state in zip(self.fields, group.states, strict=True)}}
