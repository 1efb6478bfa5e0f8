"""Translate Spark's SQL to DuckDB's where both give the same answers, bit for bit; refuse the rest: a wrong value would be kept for ever."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from gapless.errors import InvalidQuery

if TYPE_CHECKING:
    from sqlglot import exp


_KNOWN = frozenset(
    """
    Column Identifier Literal Paren Boolean Null HexString Neg DataType DataTypeParam Var
    And Or Not EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ Is In Between Like RegexpLike
    Add Sub Mul Div Mod IntDiv Abs Floor Ceil Round IsNan
    Cast TryCast TsOrDsToDate TimeStrToTime TimeToStr TimestampTrunc Year Month Day DayOfMonth DayOfYear WeekOfYear Quarter Hour Minute
    Second DateDiff LastDay CurrentTimestamp CurrentDate
    Substring Left Right Trim Length Concat ConcatWs DPipe Replace MD5
    Coalesce Nullif If Case Greatest Least
    ArraySize ArrayContains Array Struct PropertyEQ VarMap Bracket
    """.split()  # noqa: SIM905  # as a list it takes a line for each
)
"""What both mean alike, by sqlglot's names; see tests/support/spark_answers.json."""
_CALLED = frozenset({"struct_extract", "isnull", "isnotnull"})
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_FLOATS = ("FLOAT", "DOUBLE")
_TIMES = ("DATE", "TIMESTAMP")
_NUMBERS = (*_WHOLE, *_FLOATS, "DECIMAL")
_AS_TEXT = (*_WHOLE, "DECIMAL", "VARCHAR", "BOOLEAN", "DATE")
"""What both write alike."""
_TO_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_CASTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_TO_WHOLE, (*_NUMBERS, "BOOLEAN")),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _NUMBERS),
    "DECIMAL": (*_WHOLE, "DECIMAL"),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), _AS_TEXT),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"), _TIMES),
    "BOOLEAN": ("BOOLEAN",),
}
"""By what is cast to, from which of DuckDB's types."""
_OVER: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("TsOrDsToDate", "TimeStrToTime"), _TIMES),
    **dict.fromkeys(("Concat", "ConcatWs", "DPipe"), _AS_TEXT),
    "Div": (*_WHOLE, *_FLOATS),
    "IntDiv": _WHOLE,
    "Round": (*_WHOLE, "DECIMAL"),
}
"""Over which types both mean the same."""
_ONE = frozenset({"Cast", "TryCast", "TsOrDsToDate", "TimeStrToTime", "Round"})
_TWO = frozenset({"EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "Nullif", "DPipe", "Div", "IntDiv"})
_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
_FORMAT = re.compile(r"(?:%Y|%[mdHMS](?:strict)?|[^%A-Za-z])*")
"""What `yyyy`, `MM`, `dd`, `HH`, `mm` and `ss` become; other letters mean other things in other places."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?")


def refuse(text: str, why: str, fix: str = "Write what a row's own columns and constants settle") -> NoReturn:
    """Raise InvalidQuery for an expression."""
    raise InvalidQuery(f"{text!r} is no expression over a row", why=why, fix=fix, sql=text)


def spark_to_duckdb(tree: exp.Expr, text: str, schema: pa.Schema) -> exp.Expr:
    """Translate a Spark expression over columns c0, c1, … of `schema` to one by which DuckDB gives the same values.

    Raises InvalidQuery where the two may differ.
    """
    from sqlglot import exp

    root = exp.Paren(this=tree)
    nodes = list(tree.walk())
    reading = _Reading(text=text, schema=schema)
    for node in nodes:
        reading.check_known(node)
    operands = [_operands(node) for node in nodes]
    types = iter(reading.types([one for some in operands for one in some]))
    typed = [(node, some, [next(types) for _ in some]) for node, some in zip(nodes, operands, strict=True)]
    # From within: what is put in the place of a node holds copies of those below.
    for node, some, kinds in reversed(typed):
        reading.check_types(node, some, kinds)
    return root


def _is_text(node: exp.Expr) -> bool:
    return bool(node.is_string)


def _is_iso(node: exp.Expr) -> bool:
    return _is_text(node) and _ISO.fullmatch(node.name) is not None


def _says_alike(node: exp.Expr) -> bool:
    """Whether arguments that must be said are said in a form that both read alike."""
    match type(node).__name__:
        case "Anonymous":
            return str(node.this).lower() in _CALLED
        case "Like":
            return _is_text(node.expression) and "\\" not in node.expression.name
        case "RegexpLike":
            return _is_text(node.expression)
        case "Bracket":
            return all(map(_is_text, node.expressions))
        case "Substring":
            start = node.args.get("start")
            return start is not None and start.is_int and start.name.isdecimal() and int(start.name) > 0
        case "TimeToStr":
            return _is_text(node.args["format"]) and _FORMAT.fullmatch(node.args["format"].name) is not None
        case "TimestampTrunc":
            return node.args["unit"].name.upper() in _UNITS
    return type(node).__name__ in _KNOWN


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a node whose types decide whether both mean the same."""
    name = type(node).__name__
    if name in _ONE:
        found = [node.this]
    elif name in _TWO:
        found = [node.this, node.expression]
    elif name == "Between":
        found = [node.this, node.args["low"], node.args["high"]]
    elif name in ("In", "Coalesce", "Greatest", "Least"):
        found = [node.this, *node.expressions]
    elif name in ("Concat", "ConcatWs", "Array"):
        found = list(node.expressions)
    elif name == "Case":
        found = [*(one.args["true"] for one in node.args["ifs"]), node.args.get("default")]
    elif name == "If":
        found = [node.args["true"], node.args.get("false")]
    else:
        found = []
    return [one for one in found if one is not None and type(one).__name__ != "Null"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """One expression that is being read."""

    text: str
    schema: pa.Schema

    def doubt(self, node: exp.Expr) -> NoReturn:
        """Refuse a part of it."""
        from sqlglot import exp

        def named(one: exp.Expr) -> exp.Expr:
            return exp.column(self.schema.names[int(one.name[1:])]) if isinstance(one, exp.Column) else one

        part = node.copy().transform(named).sql(dialect="spark")
        why = f"{part} may not mean the same here as in Spark, whose SQL this is"
        refuse(self.text, why, "Compute it with Spark")

    def check_known(self, node: exp.Expr) -> None:
        """Refuse what both do not surely mean alike, whatever the types."""
        if not _says_alike(node):
            self.doubt(node)

    def types(self, nodes: Sequence[exp.Expr]) -> list[str]:
        """DuckDB's types of expressions, without digits in parentheses and zones."""
        import duckdb

        if not nodes:
            return []
        empty = pa.schema([(f"c{number}", one.type) for number, one in enumerate(self.schema)]).empty_table()
        selected = ", ".join(f"({node.sql(dialect='duckdb')}) AS o{number}" for number, node in enumerate(nodes))
        with duckdb.connect(":memory:", config={"python_enable_replacements": "false"}) as connection:
            connection.register("input", empty)
            try:
                types = connection.sql(f"SELECT {selected} FROM input").types  # noqa: S608  # made of a parsed expression
            except duckdb.Error as error:
                what = f"DuckDB cannot compute {self.text}: {error}"
                raise InvalidQuery(what, fix="Mend the expression, or compute it with Spark", sql=self.text) from error
        return [str(one).partition("(")[0].partition(" ")[0] for one in types]

    def check_types(self, node: exp.Expr, operands: Sequence[exp.Expr], types: Sequence[str]) -> None:
        """Refuse a node whose meaning hangs on these types, or change it so that both mean the same."""
        name = type(node).__name__
        if name in _OVER:
            if not set(types) <= set(_OVER[name]):
                self.doubt(node)
        elif name in ("Cast", "TryCast"):
            self._check_cast(node, types)
        elif name in ("IsNan", "Anonymous"):
            _meant(node)
        else:
            self._check_mixed(node, operands, types)
        if name in ("Div", "Mod", "IntDiv"):
            _divide_by_no_zero(node)

    def _check_cast(self, node: exp.Expr, types: Sequence[str]) -> None:
        from sqlglot import exp

        target = node.args["to"].this.name
        source = next(iter(types), None)
        known = _CASTS.get(target, ())
        if source is not None and source not in known and not (known == _TIMES and _is_iso(node.this)):
            self.doubt(node)
        if source in _NUMBERS and target in (*_TO_WHOLE, "FLOAT"):
            # Spark cuts what DuckDB rounds; where one does not hold it, Spark's versions differ, and null would be none's answer.
            cut = source not in _WHOLE and target in _TO_WHOLE
            value = exp.Anonymous(this="trunc", expressions=[node.this.copy()]) if cut else node.this.copy()
            node.replace(exp.Cast(this=value, to=node.args["to"].copy()))

    def _check_mixed(self, node: exp.Expr, operands: Sequence[exp.Expr], types: Sequence[str]) -> None:
        """Refuse texts beside other values, which the two compare by different rules, but for dates and times as ISO has them."""
        others = {one for one in types if one != "VARCHAR"}
        if "VARCHAR" not in types or not others:
            return
        texts = [one for one, kind in zip(operands, types, strict=True) if kind == "VARCHAR"]
        if not others <= set(_TIMES) or not all(map(_is_iso, texts)):
            self.doubt(node)


def _divide_by_no_zero(node: exp.Expr) -> None:
    """Let what is divided by zero be null, as Spark has it."""
    from sqlglot import exp

    node.set("expression", exp.Nullif(this=node.expression.copy(), expression=exp.Literal.number(0)))


def _meant(node: exp.Expr) -> None:
    """Put what Spark means in the place of a call."""
    from sqlglot import exp

    match type(node).__name__, str(node.this).lower():
        case "IsNan", _:
            # Of a null, Spark says that it is not.
            node.replace(exp.Coalesce(this=node.copy(), expressions=[exp.false()]))
        case _, "isnull":
            node.replace(exp.paren(exp.Is(this=node.expressions[0].copy(), expression=exp.Null())))
        case _, "isnotnull":
            node.replace(exp.paren(exp.not_(exp.paren(exp.Is(this=node.expressions[0].copy(), expression=exp.Null())))))
