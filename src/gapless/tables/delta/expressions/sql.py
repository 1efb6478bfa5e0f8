"""Parse SQL expressions over one row: the columns they read, their SQL for DuckDB; what one row does not determine is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from gapless.errors import InvalidQuery, UnknownColumn, nearest
from gapless.predicate.range import matching
from gapless.predicate.where import parse_condition, why_unparsed
from gapless.tables.delta.expressions.spark_sql import refuse, spark_to_duckdb

if TYPE_CHECKING:
    from sqlglot import exp


Dialect = Literal["duckdb", "spark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExpression:
    """A parsed SQL expression over the columns of a row."""

    text: str
    """As it was written."""
    sql: str
    """For DuckDB, in parentheses: the column at index 3 of the rows is called c3."""
    columns: tuple[int, ...]
    """Indexes of the columns it reads."""
    is_null: bool
    """Whether it is the word NULL, which has no type of its own."""


def parse_expression(text: str, schema: pa.Schema, dialect: Dialect, *, deterministic: bool = True) -> RowExpression:
    """Parse an expression over the columns of `schema`; raises InvalidQuery, UnknownColumn."""
    return _parsed_expression(text, schema, dialect, deterministic)


@lru_cache(256)
def _parsed_expression(text: str, schema: pa.Schema, dialect: Dialect, deterministic: bool) -> RowExpression:  # noqa: FBT001  # a cache's key
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    tree = parsed(text, dialect)
    try:
        _check_kinds(tree, text, deterministic=deterministic)
        renamed = tree.transform(_Names(text=text, schema=schema).renamed)
        columns = tuple(sorted({int(one.name[1:]) for one in renamed.find_all(exp.Column)}))
        _check_functions(renamed.sql(dialect="duckdb"), text, deterministic=deterministic)
        meant = spark_to_duckdb(renamed, text, schema) if dialect == "spark" else renamed
        sql = meant.sql(dialect="duckdb")
    except (SqlglotError, RecursionError) as error:
        raise _no_expression(text, _why(error)) from error
    return RowExpression(text=text, sql=f"({sql})", columns=columns, is_null=isinstance(tree, exp.Null))


def parsed(text: str, dialect: Dialect = "duckdb") -> exp.Expr:
    """An SQL expression as a tree; raises InvalidQuery for what is none."""
    from sqlglot.errors import SqlglotError

    try:
        return parse_condition(text, dialect)
    except (SqlglotError, RecursionError) as error:
        raise _no_expression(text, _why(error)) from error


def _why(error: Exception) -> str:
    return "It is nested too deep" if isinstance(error, RecursionError) else why_unparsed(error)


def _no_expression(text: str, why: str) -> InvalidQuery:
    return InvalidQuery(
        f"{text!r} is no SQL expression",
        why=why,
        fix="Write one value of a row, such as v + 1 or v > 1; single quotes make a text, double quotes a column",
        sql=text,
    )


def columns_read(text: str, schema: pa.Schema, dialect: Dialect = "duckdb") -> tuple[str, ...]:
    """The names of the top-level columns that an expression reads, in the schema's order. Raises as `parse_expression`."""
    return tuple(schema.names[index] for index in parse_expression(text, schema, dialect, deterministic=False).columns)


def with_names(text: str, names: Mapping[str, str]) -> str:
    """An expression in DuckDB's SQL with other names of top-level columns, by those that it has, whatever their case. Raises InvalidQuery."""
    from sqlglot import exp

    lower = {name.lower(): new for name, new in names.items()}
    tree = parsed(text)
    for part in [column.parts[0] for column in tree.find_all(exp.Column)]:
        if (new := lower.get(part.name.lower())) is not None:
            part.replace(exp.to_identifier(new, quoted=True))
    return str(tree.sql(dialect="duckdb"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """What the names in an expression mean."""

    text: str
    schema: pa.Schema

    def renamed(self, node: exp.Expr) -> exp.Expr:
        """A column under the name by which DuckDB knows it, a field of a struct as an extraction from one."""
        from sqlglot import exp

        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            return _extracted(node.this.transform(self.renamed), node.expression.name)
        if not isinstance(node, exp.Column):
            return node
        column, *fields = [part.name for part in node.parts]
        index = self.schema.get_field_index(self._match(column, self.schema.names))
        found: exp.Expr = exp.column(f"c{index}")
        kind = self.schema.field(index).type
        for name in fields:
            known = [one.name for one in kind] if pa.types.is_struct(kind) else []
            exact = self._match(name, known)
            found, kind = _extracted(found, exact), kind.field(exact).type
        return found

    def _match(self, name: str, names: list[str]) -> str:
        found = matching(name, names)
        if len(found) == 1:
            return found[0]
        what = f"could be {' or '.join(map(repr, found))}" if found else "is not there"
        raise UnknownColumn(
            f"{self.text!r} names a column {name!r}, which {what}", fix=nearest(name, names), column=name, columns=tuple(names)
        )


def _extracted(struct: exp.Expr, name: str) -> exp.Expr:
    from sqlglot import exp

    return exp.Anonymous(this="struct_extract", expressions=[struct, exp.Literal.string(name)])


def _check_kinds(tree: exp.Expr, text: str, *, deterministic: bool) -> None:
    from sqlglot import exp

    kinds: list[tuple[tuple[type, ...], str]] = [
        ((exp.Query, exp.Subquery, exp.Exists), "a query"),
        ((exp.Window,), "a window over other rows"),
        ((exp.Unnest, exp.Explode), "several rows for one"),
        ((exp.Star,), "*"),
        ((exp.Parameter, exp.Placeholder), "a parameter"),
    ]
    if deterministic:
        kinds.append(((exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentDatetime), "the time of now"))
    for classes, what in kinds:
        if (found := tree.find(*classes)) is not None:
            refuse(text, f"It holds {what}: {found.sql(dialect='duckdb')}")


def _check_functions(sql: str, text: str, *, deterministic: bool) -> None:
    known = _functions()
    for name in _called(sql):
        kind = known.get(name)
        if kind == "aggregate":
            refuse(text, f"{name}(…) is an aggregate over many rows")
        if kind == "unnesting":
            refuse(text, f"{name}(…) makes several rows of one")
        if kind == "volatile" or (kind == "of now" and deterministic):
            refuse(text, f"{name}(…) does not give the same each time")


def _called(sql: str) -> Iterator[str]:
    """The names of the functions that a text of DuckDB's SQL calls, in lower case."""
    from sqlglot import TokenType, tokenize

    tokens = tokenize(sql, dialect="duckdb")
    quoted = (TokenType.STRING, TokenType.IDENTIFIER)
    for token, following in pairwise(tokens):
        if following.token_type == TokenType.L_PAREN and token.token_type not in quoted:
            yield token.text.lower()


@cache
def _functions() -> dict[str, str]:
    """Of DuckDB's functions, which are aggregates, volatile, of the time of now, or make several rows of one."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        wanted = "function_name, function_type, stability, coalesce(macro_definition, '') LIKE 'unnest(%'"
        rows = connection.execute(f"SELECT {wanted} FROM duckdb_functions()").fetchall()  # noqa: S608  # said above
    pure = {name for name, kind, stability, _ in rows if kind in ("scalar", "macro") and stability in ("CONSISTENT", None)}
    found: dict[str, str] = {"unnest": "unnesting"}
    for name, kind, stability, unnests in rows:
        if unnests:
            found[name] = "unnesting"
        if stability == "VOLATILE":
            found[name] = "volatile"
        elif name not in pure and (kind in ("aggregate", "window") or stability == "CONSISTENT_WITHIN_QUERY"):
            found.setdefault(name, "of now" if kind == "scalar" else "aggregate")
    return found


def terms(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The conjuncts of a condition, each of which must be true."""
    from sqlglot import exp

    if isinstance(tree, exp.Paren):
        yield from terms(tree.this)
    elif isinstance(tree, exp.And):
        yield from terms(tree.this)
        yield from terms(tree.expression)
    else:
        yield tree
