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
    Cast TryCast TsOrDsToDate TimeStrToTime TimeToStr TimestampTrunc
    Year Month Day DayOfMonth DayOfWeek DayOfYear WeekOfYear Quarter Hour Minute
    Second DateDiff LastDay CurrentTimestamp CurrentDate
    Substring Left Right Trim Length Upper Lower StrPosition Concat ConcatWs DPipe Replace MD5
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
    **dict.fromkeys(("Upper", "Lower", "StrPosition"), ("VARCHAR",)),
}
"""Over which types both mean the same."""
_ONE = frozenset({"Cast", "TryCast", "TsOrDsToDate", "TimeStrToTime", "Round", "Upper", "Lower"})
_TWO = frozenset({"EQ", "NEQ", "GT", "GTE", "LT", "LTE", "NullSafeEQ", "NullSafeNEQ", "Nullif", "DPipe", "Div", "IntDiv"})
_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
_SPELLED = {"MM": "MONTH", "MON": "MONTH", "DD": "DAY", "YYYY": "YEAR", "YY": "YEAR"}
"""What Spark calls units, too."""
_TRUNCATED = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK"})
"""The units of `trunc`."""
_CASED: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "Upper": (
        "[\u0149\u019b\u01f0\u0264\u0390\u03b0\u0587\u1c8a\u1e96-\u1e9a\u1f50-\u1f56\u1f80-\u1ffc\ua7cd\ua7db\ufb00-\ufb17\U00010400-\U0001e95f]",
        (("ß", "SS"),),
    ),
    "Lower": ("[\u0130\u03a3\u1c89\ua7cb\ua7cc\ua7da\ua7dc\U00010400-\U0001e95f]", ()),
}
"""Letters that Spark and DuckDB turn into others (it was asked for every one below U+10000), and what is put in the place of some of them.

A sigma is another letter at the end of a word in Spark. Beyond U+10000 all scripts that have cases are left to Spark.
"""
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
    for node in reversed(list(tree.walk())):
        _spell_out(node)
    nodes = list(root.this.walk())
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
        case "StrPosition":
            return not (node.args.get("position") or node.args.get("occurrence"))
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
    elif name == "StrPosition":
        found = [node.this, node.args["substr"]]
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
            if name in _CASED:
                _turn_case(node)
        elif name in ("Cast", "TryCast"):
            self._check_cast(node, types)
        elif name in ("IsNan", "Anonymous", "Trim"):
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
        case "Trim", _ if node.args.get("expression") is None:
            # DuckDB takes other blanks away, too.
            node.set("expression", exp.Literal.string(" "))
        case "IsNan", _:
            # Of a null, Spark says that it is not.
            node.replace(exp.Coalesce(this=node.copy(), expressions=[exp.false()]))
        case _, "isnull":
            node.replace(exp.paren(exp.Is(this=node.expressions[0].copy(), expression=exp.Null())))
        case _, "isnotnull":
            node.replace(exp.paren(exp.not_(exp.paren(exp.Is(this=node.expressions[0].copy(), expression=exp.Null())))))


def _turn_case(node: exp.Expr) -> None:
    """Let a text with letters that both turn into others be an error, and give what Spark gives for all other texts."""
    from sqlglot import exp

    doubtful, exchanged = _CASED[type(node).__name__]
    text = node.this.copy()
    for letter, other in exchanged:
        text = exp.Anonymous(this="replace", expressions=[text, exp.Literal.string(letter), exp.Literal.string(other)])
    found = exp.Anonymous(this="regexp_matches", expressions=[node.this.copy(), exp.Literal.string(doubtful)])
    told = exp.DPipe(this=exp.Literal.string("letters that Spark may turn into others: "), expression=node.this.copy())
    error = exp.Anonymous(this="error", expressions=[told])
    turned = type(node)(this=text)
    node.replace(exp.Case(ifs=[exp.If(this=found, true=error)], default=turned))


def _spell_out(node: exp.Expr) -> None:
    """Put in the place of what Spark alone has the same in terms that both have."""
    from sqlglot import exp

    def date_of(inner: exp.Expr) -> exp.Expr:
        return inner.copy() if isinstance(inner, exp.TsOrDsToDate) else exp.TsOrDsToDate(this=inner.copy())

    def one_more(inner: exp.Expr, count: int) -> exp.Expr:
        return exp.paren(exp.Add(this=inner, expression=exp.Literal.number(count)))

    match type(node).__name__:
        case "TimestampTrunc":
            unit = node.args["unit"].name.upper()
            node.set("unit", exp.Var(this=_SPELLED.get(unit, unit)))
        case "DateTrunc" if (
            unit := _SPELLED.get(node.args["unit"].name.upper(), node.args["unit"].name.upper())
        ) in _TRUNCATED:
            whole = exp.TimestampTrunc(this=date_of(node.this), unit=exp.Var(this=unit))
            node.replace(exp.cast(whole, "DATE"))
        case "TsOrDsAdd" if node.args["unit"].name.upper() == "DAY":
            days = exp.cast(exp.paren(node.expression.copy()), "INT")
            node.replace(exp.paren(exp.Add(this=date_of(node.this), expression=days)))
        case "Extract" if (kind := _PARTS.get(node.name.upper())) is not None:
            node.replace(getattr(exp, kind)(this=date_of(node.expression)))
        case "DayOfWeek":
            # Of DuckDB, Sunday is 0.
            node.replace(one_more(exp.DayOfWeek(this=date_of(node.this)), 1))
        case "Anonymous" if str(node.this).lower() == "weekday" and len(node.expressions) == 1:
            after_monday = one_more(exp.DayOfWeek(this=date_of(node.expressions[0])), 6)
            node.replace(exp.paren(exp.Mod(this=after_monday, expression=exp.Literal.number(7))))
        case "Anonymous" if str(node.this).lower() == "pmod" and len(node.expressions) == 2:
            node.replace(_positive_modulo(*(exp.paren(one.copy()) for one in node.expressions)))


_PARTS = {"YEAR": "Year", "QUARTER": "Quarter", "MONTH": "Month", "DAY": "Day"}


def _positive_modulo(of: exp.Expr, by: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    rest = exp.paren(exp.Mod(this=of, expression=by))
    again = exp.paren(exp.Mod(this=exp.paren(exp.Add(this=rest.copy(), expression=by.copy())), expression=by.copy()))
    negative = exp.LT(this=rest.copy(), expression=exp.Literal.number(0))
    return exp.paren(exp.Case(ifs=[exp.If(this=negative, true=again)], default=rest))
