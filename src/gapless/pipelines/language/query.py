"""Queries in a pipeline: Spark's SQL, of which the names are looked up here."""

from __future__ import annotations

import re
from itertools import pairwise

from gapless.pipelines.language.statements import Query
from gapless.pipelines.language.text import Span, SqlText
from gapless.pipelines.language.tokens import Token
from gapless.spark.reading.columns import quoted


def parse_query(sql: SqlText, span: Span, tokens: list[Token]) -> Query:
    """The SELECT at a span, which has these tokens. Raises InvalidPipeline for what is no query.

    sqlglot reads it for the names in it. What it cannot read may be Spark's SQL all the same: Spark decides, once there is one.
    """
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    text = sql.slice(span)
    try:
        # In GROUP BY sqlglot takes a call of window(…) for the WINDOW clause.
        trees = parse(re.sub(r"(?i)(?<![\w`])window(?=\s*\()", "wind0w", text), read="spark")
    except (SqlglotError, RecursionError):
        names = _names_by_place(tokens)
    else:
        tree = trees[0] if len(trees) == 1 else None
        if not isinstance(tree, exp.Query):
            raise sql.error(
                span,
                "this is no query",
                why="Rows of a view or a sink come from a SELECT, or a VALUES list in one",
                fix="Write SELECT … FROM …",
            )
        own = {one.alias_or_name.casefold() for one in tree.find_all(exp.CTE)}
        names = [
            # A path or a name of a catalog (parquet.`/data`, db.t) is none that a pipeline defines.
            table.name
            for table in tree.find_all(exp.Table)
            if isinstance(table.this, exp.Identifier) and not table.db and table.name.casefold() not in own
        ]
    once = {name.casefold(): name for name in reversed(names)}
    return Query(sql=text, span=span, tables=tuple((name, _first(tokens, name, span)) for name in reversed(once.values())))


def all_rows_of(name: str, span: Span) -> Query:
    """The query of all rows of what a name at a span stands for."""
    return Query(sql=f"SELECT * FROM {quoted(name)}", span=span, tables=((name, span),))  # noqa: S608  # a quoted name


def _names_by_place(tokens: list[Token]) -> list[str]:
    """The names that stand behind FROM and JOIN, but for those of WITH (`name AS (`), functions and names of a catalog."""
    own, names = set(), []
    for before, token, after, then in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        if (before.is_word("WITH") or before.is_sign(",")) and after.is_word("AS") and then.is_sign("("):
            own.add(token.text.casefold())
        if before.is_word("FROM", "JOIN") and token.kind in ("word", "name") and not (after.is_sign("(") or after.is_sign(".")):
            names.append(token.text)
    return [name for name in names if name.casefold() not in own and name.upper() not in ("LATERAL", "VALUES")]


def _first(tokens: list[Token], name: str, span: Span) -> Span:
    """Where a name stands for the first time behind FROM, JOIN or a comma, else anywhere."""
    found = [one for one in tokens if one.kind in ("word", "name") and one.text.casefold() == name.casefold()]
    placed = [
        token
        for before, token in pairwise(tokens)
        if token in found and (before.is_word("FROM", "JOIN") or before.is_sign(","))
    ]
    return next((one.span for one in (*placed, *found)), span)
