"""Reads the SQL of a pipeline: a text in, statements out."""

from __future__ import annotations

import re
from typing import TypedDict

from gapless.errors import nearest
from gapless.pipelines.language.cursor import TokenCursor
from gapless.pipelines.language.query import all_rows_of, parse_query
from gapless.pipelines.language.statements import (
    Backfill,
    Column,
    CreateLookupTable,
    CreateSink,
    CreateSource,
    CreateView,
    Drop,
    Explain,
    Option,
    Query,
    Show,
    ShowCreate,
    Statement,
    Subscribe,
    Thing,
    Watermark,
)
from gapless.pipelines.language.text import Span, SqlText

_BEGINNINGS = ("CREATE", "DROP", "SHOW", "EXPLAIN", "SUBSCRIBE", "BACKFILL")
_THINGS: tuple[Thing, ...] = ("SOURCE", "VIEW", "SINK", "LOOKUP TABLE")
_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_DELAY = re.compile(r"\s*(\d+)\s*([A-Za-z]+)\s*")
_UNITS = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")


def parse_pipeline(text: str, name: str = "pipeline") -> list[Statement]:
    """The statements of a text, in their order; `name` is what messages call it. Raises InvalidPipeline, with line, column and a caret."""
    return _Parser(SqlText(text, name)).statements()


class _Head(TypedDict):
    """What every CREATE says first."""

    name: str
    name_span: Span
    or_replace: bool
    if_not_exists: bool


class _Parser:
    def __init__(self, sql: SqlText) -> None:
        self._sql = sql
        self._in = TokenCursor(sql)

    def statements(self) -> list[Statement]:
        found = []
        while not self._in.at_end:
            if self._in.accept_sign(";"):
                continue
            found.append(self._statement())
            if not (self._in.accept_sign(";") or self._in.at_end):
                raise self._in.unexpected("';' or the end of the statement")
        return found

    def _statement(self) -> Statement:
        start = self._in.next.span.start
        if self._in.accept("CREATE"):
            return self._create(start)
        if self._in.accept("DROP"):
            thing = self._thing()
            if_exists = self._in.accept("IF", "EXISTS")
            name, name_span = self._in.expect_name(f"the {thing.lower()}")
            return Drop(thing=thing, name=name, name_span=name_span, if_exists=if_exists, span=self._in.since(start))
        if self._in.accept("SHOW"):
            return self._show(start)
        if self._in.accept("EXPLAIN"):
            if self._in.next.is_word("SELECT", "WITH"):
                query = self._query()
                return Explain(query=query, name="", name_span=query.span, span=self._in.since(start))
            self._in.accept("SINK")
            name, name_span = self._in.expect_name("a sink, or a query,")
            return Explain(query=None, name=name, name_span=name_span, span=self._in.since(start))
        if self._in.accept("SUBSCRIBE"):
            return self._subscribe(start)
        if self._in.accept("BACKFILL"):
            name, name_span = self._in.expect_name("the sink")
            self._in.expect("FROM")
            begin = self._in.expect_string("the first instant")
            self._in.expect("TO")
            end = self._in.expect_string("the instant after the last one")
            return Backfill(name=name, name_span=name_span, start=begin, end=end, span=self._in.since(start))
        raise self._in.unexpected(f"a statement ({', '.join(_BEGINNINGS)})", _BEGINNINGS)

    # -- CREATE ------------------------------------------------------------------------------------------------------------

    def _create(self, start: int) -> Statement:
        replace_span = self._in.next.span
        or_replace = self._in.accept("OR", "REPLACE")
        thing = self._thing()
        if_not_exists = self._in.accept("IF", "NOT", "EXISTS")
        if or_replace and if_not_exists:
            raise self._sql.error(
                replace_span,
                "OR REPLACE and IF NOT EXISTS do not go together",
                why="One replaces what is there, the other leaves it",
                fix="Leave one of them out",
            )
        name, name_span = self._in.expect_name(f"the {thing.lower()}")
        head = _Head(name=name, name_span=name_span, or_replace=or_replace, if_not_exists=if_not_exists)
        match thing:
            case "SOURCE":
                columns, watermark, _ = self._columns() if self._in.next.is_sign("(") else ((), None, ())
                options = self._with()
                return CreateSource(**head, columns=columns, watermark=watermark, options=options, span=self._in.since(start))
            case "LOOKUP TABLE":
                columns, key = self._keyed_columns(head)
                options = self._with()
                return CreateLookupTable(**head, columns=columns, primary_key=key, options=options, span=self._in.since(start))
            case "VIEW":
                self._in.expect("AS")
                query = self._query()
                return CreateView(**head, query=query, span=self._in.since(start))
        options, query = self._sink()
        return CreateSink(**head, options=options, query=query, span=self._in.since(start))

    def _keyed_columns(self, head: _Head) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """The columns of a lookup table, and those of its key."""
        columns, watermark, key = self._columns()
        if watermark is not None:
            raise self._sql.error(watermark.span, "a lookup table has no watermark", fix="Leave it out")
        if not key:
            raise self._sql.error(
                head["name_span"],
                f"the lookup table {head['name']!r} has no PRIMARY KEY",
                why="A row of a stream is joined with one row of it at most",
                fix="Say PRIMARY KEY (column) at the end of the columns",
            )
        return columns, key

    def _sink(self) -> tuple[tuple[Option, ...], Query]:
        """WITH (…) AS SELECT …, or FROM name INTO TYPE (…)."""
        if not self._in.accept("FROM"):
            options = self._with()
            self._in.expect("AS")
            return options, self._query()
        name, name_span = self._in.expect_name("a source or a view")
        query = all_rows_of(name, name_span)
        self._in.expect("INTO")
        kind, kind_span = self._in.expect_name("a type of sink")
        options = tuple(self._in.listed(self._option)) if self._in.next.is_sign("(") else ()
        self._check_once(options)
        for one in options:
            if one.name == "type":
                raise self._sql.error(one.name_span, f"the type is {kind}, said before", fix="Leave it out")
        named = Option(name="type", value=kind.lower(), name_span=kind_span, value_span=kind_span)
        return (named, *options), query

    def _columns(self) -> tuple[tuple[Column, ...], Watermark | None, tuple[str, ...]]:
        columns: list[Column] = []
        found: dict[str, Watermark | tuple[str, ...]] = {}

        def item() -> None:
            span = self._in.next.span
            if self._in.accept("WATERMARK", "FOR"):
                said: Watermark | tuple[str, ...] = self._watermark(span)
                what = "WATERMARK"
            elif self._in.accept("PRIMARY", "KEY"):
                said = tuple(name for name, _ in self._in.listed(lambda: self._in.expect_name("a column of the key")))
                what = "PRIMARY KEY"
            else:
                columns.append(self._column())
                return
            if what in found:
                raise self._sql.error(span, f"a second {what}", fix="Leave one of them out")
            found[what] = said

        self._in.listed(item)
        names = [one.name.casefold() for one in columns]
        for one in columns:
            if names.count(one.name.casefold()) > 1:
                raise self._sql.error(one.span, f"two columns are called {one.name!r}", fix="Give one of them another name")
        watermark, key = found.get("WATERMARK"), found.get("PRIMARY KEY", ())
        named = (watermark.column,) if isinstance(watermark, Watermark) else ()
        for column in (*named, *(key if isinstance(key, tuple) else ())):
            if columns and column.casefold() not in names:
                span = columns[0].span.to(columns[-1].span)
                raise self._sql.error(
                    span, f"there is no column {column!r} here", fix=nearest(column, [one.name for one in columns])
                )
        return (
            tuple(columns),
            watermark if isinstance(watermark, Watermark) else None,
            key if isinstance(key, tuple) else (),
        )

    def _column(self) -> Column:
        name, span = self._in.expect_name("a column")
        typed = self._in.skip_to(",", ")", words=("NOT", "COMMENT"), brackets="()<>")
        text = self._sql.slice(typed).strip()
        if not text:
            raise self._in.unexpected(f"the type of column {name!r}")
        _check_type(self._sql, typed, text)
        not_null = self._in.accept("NOT", "NULL")
        if self._in.accept("COMMENT"):
            self._in.expect_string("the comment")
        return Column(name=name, type=text, not_null=not_null, span=span.to(typed))

    def _watermark(self, start: Span) -> Watermark:
        column, _ = self._in.expect_name("the column of event times")
        self._in.expect("AS")
        other, other_span = self._in.expect_name("that column again")
        if other.casefold() != column.casefold():
            raise self._sql.error(
                other_span,
                f"the watermark of {column!r} is said by {other!r}",
                why="Spark knows a watermark as a column and a delay",
                fix=f"Write {column} - INTERVAL '10 seconds'",
            )
        if not self._in.accept_sign("-"):
            return Watermark(column=column, delay="0 seconds", span=self._in.since(start.start))
        self._in.expect("INTERVAL")
        token = self._in.advance()
        text = token.text
        if self._in.next.kind == "word":
            text += f" {self._in.advance().text}"
        match = _DELAY.fullmatch(text)
        unit = "" if match is None else match[2].upper().removesuffix("S")
        if match is None or unit not in _UNITS:
            fix = nearest(unit, _UNITS) if unit else "Write INTERVAL '10 seconds' or INTERVAL 5 MINUTES"
            raise self._sql.error(self._in.since(token.span.start), f"{text!r} is no delay", why=_DELAYS, fix=fix)
        span = self._in.since(start.start)
        return Watermark(column=column, delay=f"{int(match[1])} {unit.lower()}s", span=span)

    # -- WITH ------------------------------------------------------------------------------------------------------------------

    def _with(self) -> tuple[Option, ...]:
        self._in.expect("WITH")
        options = tuple(self._in.listed(self._option))
        self._check_once(options)
        return options

    def _option(self) -> Option:
        token = self._in.next
        if token.kind == "string":
            name, name_span = self._in.advance().text, token.span
        else:
            name, name_span = self._in.expect_name("an option")
            while self._in.accept_sign("."):  # as Spark and Kafka have them: kafka.bootstrap.servers
                name += f".{self._in.expect_name('an option')[0]}"
                name_span = self._in.since(name_span.start)
        self._in.expect_sign("=", f"the option {name!r}")
        start = self._in.next.span.start
        value = self._value(name)
        # What stands behind a dot is a name of somebody else's, such as a parameter of a service.
        ours, dot, theirs = name.partition(".")
        return Option(name=f"{ours.lower()}{dot}{theirs}", value=value, name_span=name_span, value_span=self._in.since(start))

    def _value(self, name: str) -> str | int | float | bool:
        negative = self._in.accept_sign("-")
        token = self._in.next
        if token.kind == "number":
            self._in.advance()
            number = float(token.text) if re.search(r"[.eE]", token.text) else int(token.text[:40])
            if self._in.next.kind == "word":  # 10 seconds, without quotes
                return f"{'-' if negative else ''}{token.text} {self._in.advance().text}"
            return -number if negative else number
        if not negative and (token.kind == "string" or (token.kind == "word" and token.text[0].isdigit())):
            return self._in.advance().text  # 128MB, without quotes
        if not negative and token.is_word("TRUE", "FALSE"):
            return self._in.advance().text.upper() == "TRUE"
        raise self._in.unexpected(f"the value of {name!r}, a text in quotes, a number, TRUE or FALSE,")

    def _check_once(self, options: tuple[Option, ...]) -> None:
        seen: set[str] = set()
        for one in options:
            if one.name in seen:
                raise self._sql.error(one.name_span, f"the option {one.name!r} is given twice", fix="Leave one of them out")
            seen.add(one.name)

    # -- other statements ----------------------------------------------------------------------------------------------------

    def _thing(self) -> Thing:
        for thing in _THINGS:
            if self._in.accept(*thing.split()):
                return thing
        raise self._in.unexpected(f"what it is ({', '.join(_THINGS)})", _THINGS)

    def _show(self, start: int) -> Statement:
        if self._in.accept("CREATE"):
            thing = self._thing()
            name, name_span = self._in.expect_name(f"the {thing.lower()}")
            return ShowCreate(thing=thing, name=name, name_span=name_span, span=self._in.since(start))
        for one in (*_THINGS, "PIPELINE"):
            if self._in.accept(*f"{one}S".split()):
                return Show(things=one, span=self._in.since(start))  # type: ignore[arg-type]  # the literals of the field
        known = tuple(f"{one}S" for one in (*_THINGS, "PIPELINE"))
        raise self._in.unexpected(f"what to show ({', '.join(known)}, CREATE …)", known)

    def _subscribe(self, start: int) -> Subscribe:
        self._in.accept("TO")
        if self._in.next.is_word("SELECT", "WITH"):
            return Subscribe(query=self._query(), limit=None, span=self._in.since(start))
        name, span = self._in.expect_name("a source or a view, or a query,")
        limit = None
        if self._in.accept("LIMIT"):
            if not (self._in.next.kind == "number" and self._in.next.text.isdecimal()):
                raise self._in.unexpected("a whole number of rows")
            limit = int(self._in.advance().text[:18])
        return Subscribe(query=all_rows_of(name, span), limit=limit, span=self._in.since(start))

    def _query(self) -> Query:
        if not (self._in.next.is_word(*_QUERIES) or self._in.next.is_sign("(")):
            raise self._in.unexpected("a query", _QUERIES)
        span = self._in.skip_to(";")
        return parse_query(self._sql, span, self._in.within(span))


_DELAYS = f"It is a whole number of 0 or more and a unit: {', '.join(one.lower() for one in _UNITS)}"


def _check_type(sql: SqlText, span: Span, text: str) -> None:
    """Raise InvalidPipeline for what is no type of Spark's."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        exp.DataType.build(text, dialect="spark", udt=False)
    except (SqlglotError, RecursionError) as error:
        known = ("STRING", "INT", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "DATE", "BINARY", "DECIMAL", "FLOAT")
        raise sql.error(span, f"{text!r} is no type", why="Types are Spark's", fix=nearest(text.upper(), known)) from error
