"""The statements of a pipeline, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from gapless.pipelines.language.text import Span

Thing = Literal["SOURCE", "VIEW", "SINK", "LOOKUP TABLE"]
"""What a pipeline defines, by name. All of them share one set of names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """`name = value` in a WITH list."""

    name: str
    """In lower case."""
    value: str | int | float | bool = field(repr=False)
    """It may be a secret."""
    name_span: Span
    value_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column that a source or a lookup table declares."""

    name: str
    type: str
    """In Spark's words, as it is written."""
    not_null: bool
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """`WATERMARK FOR column AS column - INTERVAL delay`: rows that are later than that are left out of windows that are closed."""

    column: str
    delay: str
    """In Spark's words for `withWatermark`, such as "5 minutes"."""
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A SELECT, as it is written."""

    sql: str
    span: Span
    tables: tuple[tuple[str, Span], ...]
    """The names that it reads, apart from those that it defines itself, each once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Any statement."""

    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition(Statement):
    """A CREATE of any kind."""

    name: str
    name_span: Span
    or_replace: bool
    if_not_exists: bool

    thing: ClassVar[Thing]
    """What it defines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSource(Definition):
    """CREATE SOURCE: where rows come from."""

    thing: ClassVar[Thing] = "SOURCE"
    columns: tuple[Column, ...]
    watermark: Watermark | None
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView(Definition):
    """CREATE VIEW: a query with a name."""

    thing: ClassVar[Thing] = "VIEW"
    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSink(Definition):
    """CREATE SINK: where the rows of a query go."""

    thing: ClassVar[Thing] = "SINK"
    options: tuple[Option, ...]
    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLookupTable(Definition):
    """CREATE LOOKUP TABLE: rows that a stream is joined with, by their key, and which are read anew now and then."""

    thing: ClassVar[Thing] = "LOOKUP TABLE"
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Statement):
    """DROP: what was defined under the name is so no more."""

    thing: Thing
    name: str
    name_span: Span
    if_exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Show(Statement):
    """SHOW SOURCES, VIEWS, SINKS, LOOKUP TABLES or PIPELINES."""

    things: Thing | Literal["PIPELINE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreate(Statement):
    """SHOW CREATE: the statement that defines it, secrets masked."""

    thing: Thing
    name: str
    name_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN a sink by name, or a query: how it would run."""

    query: Query | None
    """None where a sink is named."""
    name: str
    name_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe(Statement):
    """SUBSCRIBE TO a name, or a query: its first rows, on the terminal."""

    query: Query
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill(Statement):
    """BACKFILL a sink FROM an instant TO another: what it lacks there is computed."""

    name: str
    name_span: Span
    start: str
    end: str
