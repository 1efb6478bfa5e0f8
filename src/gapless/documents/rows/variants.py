"""Which row groups may hold a row that matches, by parts of variants that lie in columns of their own (`typed_value`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from gapless.documents.filters.tree import All, At, Condition, Contains, Each, HasType, Not, Path, Some, Test
from gapless.documents.rows.predicate import scalar_of
from gapless.documents.rows.values import is_variant
from gapless.files.pages.footer import Footer
from gapless.formats.delta.variant.shredded import TYPED, VALUE
from gapless.model.stats import ColumnStats
from gapless.predicate.prune import may_match, stats_name

_PART = ("variant", "part")
"""What a part is called where it is asked about by itself: a field, which is null where it is missing."""


@dataclass(frozen=True, slots=True)
class VariantFilter:
    """A condition over rows with variants, asked of row groups."""

    condition: Condition
    columns: frozenset[str]
    """The columns that are variants."""

    @classmethod
    def of(cls, condition: Condition, schema: pa.Schema) -> VariantFilter | None:
        """That of a condition over these columns; None where it says nothing of variants."""
        columns = frozenset(field.name for field in schema if is_variant(field))
        return cls(condition, columns) if any(path[0] in columns for path, _ in _asked(condition)) else None

    def may_match(self, footer: Footer, number: int, stored_name: Callable[[str], str]) -> bool:
        """False only where no row of a row group can match, by the file's footer; `stored_name` is what a file calls a column."""
        return self._may(self.condition, _Group(footer, number, stored_name))

    def _may(self, condition: Condition, group: _Group) -> bool:
        match condition:
            case All(conditions):
                return all(self._may(one, group) for one in conditions)
            case Some(conditions):
                return any(self._may(one, group) for one in conditions)
            case At(path, test) if path[0] in self.columns and _is_of_values(test):
                return group.may_hold(path, test)
        return True


def _asked(condition: Condition) -> Iterator[tuple[Path, Test]]:
    match condition:
        case All(conditions) | Some(conditions):
            for one in conditions:
                yield from _asked(one)
        case At(path, test):
            yield path, test


def _is_of_values(test: Test) -> bool:
    """Whether a test asks of values alone, and not which of BSON's types they have: of an integer in a variant that depends on its size."""
    match test:
        case HasType():
            return False
        case Not(inner):
            return _is_of_values(inner)
        case Each(tests) | Contains(tests):
            return all(map(_is_of_values, tests))
    return True


@dataclass(frozen=True, slots=True)
class _Group:
    footer: Footer
    number: int
    stored_name: Callable[[str], str]

    def may_hold(self, path: Path, test: Test) -> bool:
        """Whether what lies at a path of a variant may meet a test."""
        levels: list[Path] = [(self.stored_name(path[0]),)]
        for name in path[1:]:
            levels.append((*levels[-1], TYPED, name))
        leaf = (*levels[-1], TYPED)
        type_ = self._type(leaf)
        part = None if type_ is None else scalar_of(_PART, type_)
        known = None if part is None else self._stats(leaf, type_)
        rows = self.footer.groups.rows[self.number]
        if part is None or known is None or not self._is_typed(known, levels, rows):
            return True
        schema = pa.schema([pa.field(_PART[0], pa.struct([pa.field(_PART[1], type_)]))])
        asked = part.told(test).predicate
        return may_match(asked, {stats_name(_PART): known}.get, schema, rows=rows)

    def _is_typed(self, known: ColumnStats, levels: list[Path], rows: int) -> bool:
        """Whether all that lies at a path is of the column's type, or missing: nothing of another type, no array on the way."""
        if known.nulls == 0:
            return True
        return all((found := self._stats((*level, VALUE), None)) is not None and found.nulls == rows for level in levels)

    def _stats(self, path: Path, type_: pa.DataType | None) -> ColumnStats | None:
        return self.footer.groups.nested(path, type_)[self.number]

    def _type(self, path: Path) -> pa.DataType | None:
        """The type of a field of structs in the file; None where it has none."""
        found: pa.DataType | pa.Schema = self.footer.schema
        for name in path:
            at = found.get_field_index(name) if isinstance(found, pa.Schema) or pa.types.is_struct(found) else -1
            if at < 0:
                return None
            found = found.field(at).type
        return found
