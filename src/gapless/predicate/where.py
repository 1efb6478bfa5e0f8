"""Parse a SQL condition (`where`) to a predicate.

Supported: `= == <> != < <= > >=`, `IS [NOT] DISTINCT FROM`, `AND OR NOT`, `[NOT] IN (literals)`, `[NOT] BETWEEN`,
`IS [NOT] NULL|TRUE|FALSE|UNKNOWN`, `[NOT] LIKE|ILIKE 'pattern' [ESCAPE 'c']`, boolean columns alone, columns against
columns, and the functions isnan, abs, lower, upper, length (char_length), coalesce and starts_with. Literals:
numbers, 'text', TRUE, FALSE, NULL, DATE, TIME, TIMESTAMP and TIMESTAMPTZ '…', dates and times plus or minus an INTERVAL
of weeks, days or shorter units, and casts of literals. A TIMESTAMP without an offset beside a column in UTC is meant in
UTC, as in Spark and DuckDB with that zone; beside another zone it is refused. The results are those of DuckDB, but that numbers are compared without rounding and text is never read as a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from gapless.errors import InvalidFilter
from gapless.predicate import predicate as p
from gapless.predicate.coerce import UTC_NAMES, coerce_literal, column_type, compare_values, kind_of, type_of
from gapless.predicate.literals import NULL, as_utc, cast_value, fit, negate, read_number, shift
from gapless.predicate.range import find_column

if TYPE_CHECKING:
    from sqlglot import exp


_COMPARISONS: dict[str, p.Op] = {"eq": "=", "neq": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_FUNCTIONS: dict[str, p.Function] = {
    "abs": "abs", "lower": "lower", "upper": "upper", "length": "length", "coalesce": "coalesce",
}  # fmt: skip
_NAMES = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "dpipe": "||",
    "subquery": "a subquery",
    "select": "SELECT",
}


def parse_where(text: str, schema: pa.Schema) -> p.Predicate:
    """Read a boolean SQL expression over the columns of `schema`.

    A name matches exactly, else without regard to case where that is unique; `"…"` quotes one. `s.x` is a field of
    the struct column `s`. Raises InvalidFilter, UnknownColumn or InvalidTime.

    >>> parse_where("x > 2", pa.schema([("x", pa.int64())]))
    Comparison(op='>', left=Column(path=('x',)), right=Value(kind='number', value=2))
    """
    from sqlglot.errors import SqlglotError

    parser = _Parser(text=text, schema=schema)
    try:
        tree = parse_condition(text, "duckdb")
    except (SqlglotError, RecursionError) as error:
        raise InvalidFilter(
            f"where={text!r} is no SQL condition",
            why=why_unparsed(error),
            fix="Write one boolean expression, such as \"price > 10 and symbol = 'NVDA'\"; double quotes quote a column",
            where=text,
        ) from error
    try:
        return parser.predicate(tree)
    except RecursionError as error:
        raise InvalidFilter(f"where={text[:60]!r}… is nested too deep", fix="Use IN (…) for long lists", where=text) from error


def parse_condition(text: str, dialect: str) -> exp.Expr:
    """The tree of one SQL expression. Raises what sqlglot does, also for several statements, and RecursionError."""
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError

    # Before sqlglot 29 parse_one gives the first of several statements and says nothing of the others.
    tree, *others = Dialect.get_or_raise(dialect).parse_into(exp.Condition, text)
    if tree is None:
        raise ParseError(f"No expression was parsed from {text!r}")
    if others:
        raise ParseError.new("several statements", description="These are several statements")
    return tree


def why_unparsed(error: Exception) -> str:
    """What sqlglot says of a text that it cannot parse, in one line and without its colours."""
    details = getattr(error, "errors", None) or [{}]
    description = str(details[-1].get("description") or "It cannot be parsed")
    # That one names sqlglot's own classes.
    return "Something is missing beside an operator" if description.startswith("Required keyword") else description


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parser:
    text: str
    schema: pa.Schema

    def fail(self, why: str, fix: str = "") -> NoReturn:
        raise InvalidFilter(f"where={self.text!r} cannot be answered", why=why, fix=fix, where=self.text)

    def unsupported(self, node: exp.Expr) -> NoReturn:
        name = _NAMES.get(node.key, f"{node.key} ({node.sql(dialect='duckdb')})")
        self.fail(f"A scan's filter does not know {name}", "Use table.sql for it")

    def predicate(self, node: exp.Expr) -> p.Predicate:
        """A node that is true, false or null."""
        if node.key in _COMPARISONS:
            return self.comparison(_COMPARISONS[node.key], self.operand(node.this), self.operand(node.expression))
        handlers: dict[str, Callable[[exp.Expr], p.Predicate]] = {
            "paren": lambda n: self.predicate(n.this),
            "not": lambda n: p.Not(term=self.predicate(n.this)),
            "and": lambda n: p.And(terms=tuple(self.predicate(term) for term in n.flatten())),
            "or": lambda n: p.Or(terms=tuple(self.predicate(term) for term in n.flatten())),
            "nullsafeneq": self.distinct,
            "nullsafeeq": lambda n: p.Not(term=self.distinct(n)),
            "in": self.membership,
            "between": self.between,
            "is": self.is_,
            "like": self.like,
            "ilike": self.like,
            "escape": lambda n: self.like(n.this, n.expression),
            "startswith": self.starts_with,
            "isnan": self.isnan,
        }
        handler = handlers.get(node.key, self.truth)
        return handler(node)

    def truth(self, node: exp.Expr) -> p.Predicate:
        operand = self.operand(node)
        if isinstance(operand, p.Value):
            if operand.kind == "null" or isinstance(operand.value, bool):
                return p.Constant(value=operand.value if isinstance(operand.value, bool) else None)
            self.fail(f"{node.sql(dialect='duckdb')} is neither true nor false", "Compare it with something")
        if self.kind(operand) != "bool":
            self.fail(f"{self.name(operand)} is neither true nor false", "Compare it with something")
        return p.Truth(operand=operand)

    def operand(self, node: exp.Expr) -> p.Operand:
        """A node that has a value: a column, a literal or a function of these."""
        if node.key == "paren":
            return self.operand(node.this)
        if node.key in ("column", "dot", "bracket"):
            return self.column(node)
        if node.key in _FUNCTIONS:
            return self.call(_FUNCTIONS[node.key], node)
        return self.literal(node)

    def literal(self, node: exp.Expr) -> p.Value:
        try:
            match node.key:
                case "paren":
                    return self.literal(node.this)
                case "null":
                    return NULL
                case "boolean":
                    return p.Value(kind="bool", value=bool(node.this))
                case "literal":
                    return p.Value(kind="text", value=node.this) if node.args["is_string"] else read_number(node.this)
                case "neg":
                    return negate(self.literal(node.this))
                case "cast":
                    return self.cast(node)
                case "add" | "sub" if node.expression.key == "interval":
                    return self.shifted(node)
        except ValueError as error:
            self.fail(str(error), "Write the literal as the type it should have")
        return self.unsupported(node)

    def cast(self, node: exp.Expr) -> p.Value:
        if node.this.key not in ("literal", "neg", "boolean", "null", "cast", "paren"):
            self.fail("A scan's filter casts literals only", "Compare the column as it is, or use table.sql for it")
        to = node.args["to"]
        return cast_value(self.literal(node.this), to.this.name, tuple(int(param.name) for param in to.expressions))

    def shifted(self, node: exp.Expr) -> p.Value:
        """A date or time literal plus or minus an interval."""
        count, unit = node.expression.this, node.expression.args.get("unit")
        known = node.this.unnest().key in ("cast", "literal", "null", "add", "sub")
        if not known or count is None or count.unnest().key != "literal" or unit is None:
            self.unsupported(node)
        return shift(self.literal(node.this), count.unnest().name, unit.name, 1 if node.key == "add" else -1)

    def column(self, node: exp.Expr) -> p.Column:
        parts = [part.name for part in getattr(node, "parts", ())]
        if node.key != "column" or not parts:
            self.unsupported(node)
        return find_column(parts, self.schema, self.text)

    def kind(self, operand: p.Column | p.Call) -> p.Kind:
        type_ = type_of(operand, self.schema)
        kind = kind_of(type_)
        if kind is None:
            self.fail(f"{self.name(operand)} is a {type_}, which has no order", "Use table.sql for it")
        return kind

    def name(self, operand: p.Operand) -> str:
        if isinstance(operand, p.Column):
            return f"column {'.'.join(operand.path)!r} ({column_type(operand, self.schema)})"
        return f"{operand.name}(…)" if isinstance(operand, p.Call) else repr(operand.value)

    def fitted(self, value: p.Value, beside: p.Column | p.Call) -> p.Value:
        """A literal as one that compares with an operand, or InvalidFilter."""
        kind, name, type_ = self.kind(beside), self.name(beside), type_of(beside, self.schema)
        in_utc = kind == "timestamptz" and type_.tz in UTC_NAMES
        try:
            found = fit(as_utc(value) if in_utc else value, kind, name)
        except ValueError as error:
            self.fail(str(error), "Write the literal as the column's type; numbers have no quotes, texts do")
        coerce_literal("=", found, type_)  # a date that its zone cannot place is refused here
        return found

    def pair(self, left: p.Operand, right: p.Operand) -> tuple[p.Operand, p.Operand]:
        """Both sides, each fit to be compared with the other."""
        if isinstance(left, p.Value):
            return left if isinstance(right, p.Value) else self.fitted(left, right), right
        if isinstance(right, p.Value):
            return left, self.fitted(right, left)
        kinds = {self.kind(left), self.kind(right)}
        if len(kinds - {"null"}) > 1 and kinds != {"date", "timestamp"}:
            self.fail(f"{self.name(left)} and {self.name(right)} do not compare", "Use table.sql and a cast for it")
        return left, right

    def comparison(self, op: p.Op, left: p.Operand, right: p.Operand) -> p.Predicate:
        left, right = self.pair(left, right)
        if not isinstance(left, p.Value):
            return p.Comparison(op=op, left=left, right=right)
        if not isinstance(right, p.Value):
            return p.Comparison(op=p.MIRRORED[op], left=right, right=left)
        try:
            return p.Constant(value=compare_values(op, left, right))
        except ValueError as error:
            self.fail(str(error), "Compare literals of one type")

    def distinct(self, node: exp.Expr) -> p.Predicate:
        left, right = self.pair(self.operand(node.this), self.operand(node.expression))
        if isinstance(left, p.Value) and isinstance(right, p.Value):
            known = None not in (left.value, right.value)
            return self.comparison("!=", left, right) if known else p.Constant(value=left.value is not right.value)
        return p.Distinct(left=right, right=left) if isinstance(left, p.Value) else p.Distinct(left=left, right=right)

    def membership(self, node: exp.Expr) -> p.Predicate:
        items = node.expressions
        if not items or node.args.get("query") or node.args.get("field") or node.args.get("unnest"):
            self.fail("IN takes a list of literals, such as IN (1, 2)", "Use table.sql for anything else")
        operand = self.operand(node.this)
        values = tuple(self.operand(item) for item in items)
        literals = tuple(value for value in values if isinstance(value, p.Value))
        if isinstance(operand, p.Value) or len(literals) < len(values):
            return p.Or(terms=tuple(self.comparison("=", operand, value) for value in values))
        return p.In(operand=operand, values=tuple(self.fitted(value, operand) for value in literals))

    def between(self, node: exp.Expr) -> p.Predicate:
        if node.args.get("symmetric"):
            self.unsupported(node)
        operand = self.operand(node.this)
        low = self.comparison(">=", operand, self.operand(node.args["low"]))
        return p.And(terms=(low, self.comparison("<=", operand, self.operand(node.args["high"]))))

    def is_(self, node: exp.Expr) -> p.Predicate:
        if node.expression.key == "boolean":
            return p.IsTruth(term=self.predicate(node.this), value=bool(node.expression.this))
        if node.expression.key != "null":
            self.fail("IS goes with NULL, TRUE, FALSE or DISTINCT FROM", "Use = for values and isnan(x) for NaN")
        inner = node.this.unnest()
        if inner.key not in ("column", "dot", "literal", "null", "cast", "neg", *_FUNCTIONS):
            return p.IsTruth(term=self.predicate(inner), value=None)
        operand = self.operand(inner)
        return p.Constant(value=operand.kind == "null") if isinstance(operand, p.Value) else p.IsNull(operand=operand)

    def texts(self, node: exp.Expr, what: str) -> p.Column | p.Call:
        operand = self.operand(node)
        if isinstance(operand, p.Value) or self.kind(operand) not in ("text", "null"):
            self.fail(f"{what} takes a text column, and {self.name(operand)} is none", "Use table.sql and a cast for it")
        return operand

    def pattern(self, node: exp.Expr, what: str) -> str:
        if node.key != "literal" or not node.args["is_string"]:
            self.fail(f"{what} takes a text literal, such as 'a%'", "Use table.sql for anything else")
        return str(node.this)

    def like(self, node: exp.Expr, escape: exp.Expr | None = None) -> p.Predicate:
        if node.key not in ("like", "ilike"):
            self.unsupported(node)
        pattern, sign = self.pattern(node.expression, "LIKE"), None
        if escape is not None and (sign := self.pattern(escape, "ESCAPE")) and len(sign) != 1:
            self.fail("ESCAPE takes one character")
        if sign and (len(pattern) - len(pattern.rstrip(sign))) % 2:
            self.fail(f"The pattern {pattern!r} ends in its escape character", "Double it")
        operand = self.texts(node.this, "LIKE")
        found = p.Like(operand=operand, pattern=pattern, escape=sign or None, ignore_case=node.key == "ilike")
        return p.Not(term=found) if node.args.get("negate") else found

    def starts_with(self, node: exp.Expr) -> p.Predicate:
        prefix = self.pattern(node.expression, "starts_with")
        return p.StartsWith(operand=self.texts(node.this, "starts_with"), prefix=prefix)

    def isnan(self, node: exp.Expr) -> p.Predicate:
        operand = self.operand(node.this)
        if isinstance(operand, p.Value) or self.kind(operand) not in ("number", "null"):
            self.fail(f"isnan takes a number column, and {self.name(operand)} is none")
        return p.IsNan(operand=operand)

    def call(self, name: p.Function, node: exp.Expr) -> p.Call:
        first = self.operand(node.this)
        if isinstance(first, p.Value):
            self.fail(f"{name} takes a column first", "Write its result as a literal")
        wanted = {"abs": "number", "lower": "text", "upper": "text", "length": "text"}
        if self.kind(first) not in (wanted.get(name, self.kind(first)), "null"):
            self.fail(
                f"{name} takes a {wanted[name]} column, and {self.name(first)} is none", "Use table.sql and a cast for it"
            )
        if name != "coalesce":
            return p.Call(name=name, args=(first,))
        return p.Call(name=name, args=(first, *(self.substitute(self.operand(other), first) for other in node.expressions)))

    def substitute(self, other: p.Operand, first: p.Column | p.Call) -> p.Operand:
        """A later argument of coalesce: of the first one's type, or a literal that this type holds."""
        if not isinstance(other, p.Value):
            if type_of(other, self.schema) != type_of(first, self.schema):
                self.fail(f"coalesce mixes {self.name(first)} and {self.name(other)}", "Use table.sql and a cast for it")
            return other
        fitted = self.fitted(other, first)
        if isinstance(coerce_literal("=", fitted, type_of(first, self.schema)), bool):
            self.fail(f"{self.name(first)} cannot hold {other.value!r}, so coalesce cannot give it", "Use table.sql for it")
        return fitted
