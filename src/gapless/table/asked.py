"""Corrections as callers ask for them: arguments in, what they mean out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidOption, nearest
from gapless.model.index import IndexSpec
from gapless.scan.range import check_entity_values
from gapless.table.correction import ON_DUPLICATE, Delete, OnDuplicate, Replace, Upsert
from gapless.table.scan import ScanRequest
from gapless.table.values import format_index_value, parse_index_value


def asked_upsert(key: object, on_duplicate: object, given: Sequence[Iterable[str]]) -> Upsert:
    """The upsert by these arguments of `upsert`, of input whose parts have the columns `given`; raises InvalidOption."""
    columns = _parse_key(key)
    return Upsert(
        key=columns,
        on_duplicate=_parse_on_duplicate(on_duplicate),
        given=tuple(map(frozenset, given)),
        parameters=_said(key=None if columns is None else list(columns), on_duplicate=on_duplicate),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which rows of a table a caller means, as `scan` takes it; end and start are no columns' names but ends of the index."""

    start: object = None
    end: object = None
    where: str | pc.Expression | None = None
    entity: Mapping[str, object] | None = None

    def delete(self, index: IndexSpec, schema: pa.Schema | None, operation: str = "delete") -> Delete:
        """The deletion of these rows; raises InvalidOption where nothing bounds them, InvalidTime, UnknownColumn."""
        if self.where is None and self.start is None and self.end is None and not self.entity:
            raise InvalidOption(
                "delete without a condition would delete every row",
                why="That is more often forgotten than meant",
                fix='Pass where=, start=, end= or entity=; delete(where="true") deletes all rows',
                option="where",
                value=None,
            )
        said = self._span(index, schema) | _said(where=None if self.where is None else str(self.where))
        return Delete(request=self._request(), operation=operation, parameters=said)

    def replace(self, index: IndexSpec, schema: pa.Schema | None) -> Replace:
        """The replacement of these rows; raises InvalidTime, UnknownColumn, InvalidOption."""
        return Replace(request=self._request(), parameters=self._span(index, schema))

    def _request(self) -> ScanRequest:
        return ScanRequest(start=self.start, end=self.end, where=self.where, entity=self.entity or {}, columns=None, order=None)

    def _span(self, index: IndexSpec, schema: pa.Schema | None) -> dict[str, object]:
        """Range and entities as the log says them; raises what wrong ones deserve."""
        ends = {
            name: None if value is None else parse_index_value(value, index, schema, name=name)
            for name, value in (("start", self.start), ("end", self.end))
        }
        said = {name: None if value is None else format_index_value(value, index) for name, value in ends.items()}
        wanted = check_entity_values(index, schema, self.entity or {})
        entity = {name: [v.isoformat() if isinstance(v, date) else v for v in values] for name, values in wanted.items()}
        return _said(**said, entity=entity or None)


def parse_span(span: object) -> tuple[object, object]:
    """The ends of a range that is given as (start, end); raises InvalidOption."""
    if isinstance(span, tuple | list) and len(span) == 2:
        return span[0], span[1]
    raise InvalidOption(
        f"{span!r} is no range",
        why="A range is (start, end), half-open",
        fix="Pass two index values",
        option="span",
        value=span,
    )


def _said(**given: object) -> dict[str, object]:
    return {name: value for name, value in given.items() if value is not None}


def _parse_key(key: object) -> tuple[str, ...] | None:
    if key is None:
        return None
    columns = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Iterable) else ()
    if columns and all(isinstance(name, str) for name in columns) and len(set(columns)) == len(columns):
        return columns
    raise InvalidOption(
        f"key={key!r} names no columns",
        why="A key is one column or several different ones",
        fix='Pass key="id" or key=["site", "id"], or leave it out for the entity columns and the index',
        option="key",
        value=key,
    )


def _parse_on_duplicate(value: object) -> OnDuplicate:
    for known in ON_DUPLICATE:
        if value == known:
            return known
    raise InvalidOption(
        f"on_duplicate={value!r} is not known",
        fix=nearest(str(value), ON_DUPLICATE),
        option="on_duplicate",
        value=value,
    )
