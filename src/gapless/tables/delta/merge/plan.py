"""Parse a MERGE: names with their aliases, join keys, and which clause applies to which rows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from gapless.errors import InvalidOption, InvalidQuery, UnknownColumn, nearest
from gapless.predicate.range import matching
from gapless.tables.delta.expressions.sql import parsed, terms

if TYPE_CHECKING:
    from sqlglot import exp


Match = Literal["matched", "not_matched", "not_matched_by_source"]
"""Rows of both sides that belong together, rows of the source alone, rows of the target alone."""
Act = Literal["update", "delete", "insert"]
Side = Literal["target", "source"]
SIDES: dict[Match, tuple[Side, ...]] = {
    "matched": ("target", "source"),
    "not_matched": ("source",),
    "not_matched_by_source": ("target",),
}
"""Whose columns a clause may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """What is done with the rows of one kind, as the caller says it."""

    match: Match
    act: Act
    where: str | None = None
    values: Mapping[str, object] | None = None
    """New values by column; None for those of the source's columns of the same names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the names in a merge's SQL mean."""

    target_alias: str
    source_alias: str
    target: pa.Schema
    source: pa.Schema

    def schema(self, sides: Sequence[Side] = ("target", "source")) -> pa.Schema:
        """The columns of both sides (or one), each under its alias: `"t.id"`."""
        return pa.schema([field.with_name(self.flat_name(side, field.name)) for side in sides for field in self._side(side)])

    def flat_name(self, side: Side, column: str) -> str:
        """What `schema` calls a column."""
        return f"{self.target_alias if side == 'target' else self.source_alias}.{column}"

    def flat(self, text: str, sides: Sequence[Side] = ("target", "source")) -> str:
        """SQL over both sides (or one) as SQL over the columns of `schema`. Raises InvalidQuery, UnknownColumn."""
        from sqlglot import exp

        def renamed(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            side, path = self.resolve([part.name for part in node.parts], text, sides)
            return _dotted([self.flat_name(side, path[0]), *path[1:]])

        return str(parsed(text).transform(renamed).sql(dialect="duckdb"))

    def resolve(self, parts: Sequence[str], text: str, sides: Sequence[Side] = ("target", "source")) -> tuple[Side, list[str]]:
        """Whose column a name is, and its path from the column's own name. Raises InvalidQuery, UnknownColumn; both show `text`."""
        aliases: dict[str, Side] = {self.target_alias.lower(): "target", self.source_alias.lower(): "source"}
        named = aliases.get(parts[0].lower()) if len(parts) > 1 else None
        if named is None:
            return self._unqualified(parts, text, sides)
        if named not in sides:
            raise InvalidQuery(
                f"{text!r} names {'.'.join(parts)!r}, and there is no row of the {named} here",
                fix=f"Use columns of the {sides[0]} only",
                sql=text,
            )
        found = matching(parts[1], self._side(named).names)
        if len(found) != 1:
            raise self._unknown(parts[1], text, (named,))
        return named, [found[0], *parts[2:]]

    def _unqualified(self, parts: Sequence[str], text: str, sides: Sequence[Side]) -> tuple[Side, list[str]]:
        found = [(side, name) for side in sides for name in matching(parts[0], self._side(side).names)]
        if not found:
            raise self._unknown(parts[0], text, sides)
        if len(found) > 1:
            meant = " or ".join(f"{self.flat_name(side, name)}" for side, name in found)
            raise InvalidQuery(f"{text!r} names {parts[0]!r}, which may be {meant}", fix=f"Write {meant}", sql=text)
        side, name = found[0]
        return side, [name, *parts[1:]]

    def _unknown(self, name: str, text: str, sides: Sequence[Side]) -> UnknownColumn:
        known = tuple(self.schema(sides).names)
        bare = [one for side in sides for one in self._side(side).names]
        return UnknownColumn(
            f"{text!r} names a column {name!r}, which is not there", fix=nearest(name, bare), column=name, columns=known
        )

    def _side(self, side: Side) -> pa.Schema:
        return self.target if side == "target" else self.source


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A column of the target that equals one of the source in rows that belong together."""

    target: str
    source: str


def key_pairs(on: str, names: Names) -> list[KeyPair]:
    """The equalities that a condition asks of every pair of rows, between columns that are not nested."""
    from sqlglot import exp

    pairs = []
    for term in terms(parsed(on)):
        if not (isinstance(term, exp.EQ) and isinstance(term.this, exp.Column) and isinstance(term.expression, exp.Column)):
            continue
        ends = [names.resolve([part.name for part in end.parts], on) for end in (term.this, term.expression)]
        by_side = dict(ends)
        if len(by_side) == 2 and all(len(path) == 1 for _, path in ends):
            pairs.append(KeyPair(by_side["target"][0], by_side["source"][0]))
    return pairs


def target_terms(on: str, names: Names) -> list[str]:
    """What a condition asks of the target's row alone, each as SQL over its columns."""
    from sqlglot import exp

    def renamed(node: exp.Expr) -> exp.Expr:
        return _dotted(names.resolve([part.name for part in node.parts], on)[1]) if isinstance(node, exp.Column) else node

    found = []
    for term in terms(parsed(on)):
        sides = {names.resolve([part.name for part in column.parts], on)[0] for column in term.find_all(exp.Column)}
        if sides == {"target"}:
            found.append(str(term.transform(renamed).sql(dialect="duckdb")))
    return found


def source_columns(texts: Sequence[str], names: Names) -> frozenset[str]:
    """The source's columns that any of some texts reads."""
    from sqlglot import exp

    read = set()
    for text in texts:
        for column in parsed(text).find_all(exp.Column):
            side, path = names.resolve([part.name for part in column.parts], text)
            read |= {path[0]} if side == "source" else set()
    return frozenset(read)


def check_clauses(clauses: Sequence[Clause]) -> None:
    """Raise InvalidOption where there is no clause, or one that no row can come to."""
    if not clauses:
        raise InvalidOption(
            "the merge says nothing to do",
            why="It has no clause",
            fix="Add when_matched_update(…), when_not_matched_insert(…) or another",
            option="merge",
            value=None,
        )
    closed: set[Match] = set()
    for clause in clauses:
        if clause.match in closed:
            raise InvalidOption(
                f"when_{clause.match}_{clause.act} can take no row",
                why="A clause without a condition before it takes all of them",
                fix="Give the clauses before it where=, or leave it out",
                option="where",
                value=clause.where,
            )
        if clause.where is None:
            closed.add(clause.match)


def _dotted(path: Sequence[str]) -> exp.Expr:
    from sqlglot import exp

    found: exp.Expr = exp.column(exp.to_identifier(path[0], quoted=True))
    for name in path[1:]:
        found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
    return found
