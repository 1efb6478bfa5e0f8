"""What an option is, and what a type of source or sink takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gapless.errors import InvalidOption, nearest, one_of, shorten
from gapless.model.time.duration import parse_duration
from gapless.pipelines.language.statements import Option
from gapless.pipelines.language.text import Span, SqlText
from gapless.pipelines.options.values import parse_names, parse_size

Kind = Literal["text", "choice", "names", "size", "duration", "count", "number", "flag"]


def behind(prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that begin with a prefix, by what stands behind it."""
    return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """One option, as the docs and the parser know it."""

    name: str
    about: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    required: bool = False
    default: Any = None
    secret: bool = False
    """SHOW CREATE masks its value, unless that only names a secret."""

    def parse(self, value: object) -> Any:
        """The value in a type of ours: durations as timedelta, sizes in bytes. Raises InvalidOption."""
        match self.kind:
            case "size":
                return parse_size(value, self.name)
            case "duration":
                return parse_duration(value, self.name)
            case "names":
                return parse_names(value, self.name)
            case "choice":
                return one_of(self.name, value.lower() if isinstance(value, str) else value, self.choices)
            case "flag":
                texts = {"true": True, "false": False}
                found = value if isinstance(value, bool) else texts.get(str(value).lower())
                if found is None:
                    raise self._refuse(value, "TRUE or FALSE")
                return found
            case "number":
                if isinstance(value, bool) or not str(value).isdecimal() or int(str(value)[:20]) >= 2**31:
                    raise self._refuse(value, "a whole number from 0")
                return int(str(value))
            case "count":
                if isinstance(value, bool) or not str(value).isdecimal() or not 0 < int(str(value)[:20]) < 2**31:
                    raise self._refuse(value, "a whole number from 1")
                return int(str(value))
        if isinstance(value, str):
            return value
        raise self._refuse(value, "a text in quotes")

    def _refuse(self, value: object, what: str) -> InvalidOption:
        return InvalidOption(
            f"{self.name}={shorten(value)} is no value of it",
            why=f"It is {what}",
            fix=self.about,
            option=self.name,
            value=value,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSpec:
    """A type of source, lookup table or sink."""

    name: str
    about: str
    options: tuple[OptionSpec, ...]
    passed: tuple[str, ...] = ()
    """Prefixes of options that go to Spark's own connector as they are, such as "kafka."."""


def read_options(
    sql: SqlText, options: Iterable[Option], specs: Mapping[str, TypeSpec], what: str, span: Span
) -> tuple[TypeSpec, Mapping[str, Any]]:
    """The type that options say, and their values by name, defaults for those that are not given; `what` they are of, such as "sink".

    Raises InvalidPipeline for a type or an option that is not known, naming the nearest; for a value that is none; and where one is missing.
    """
    given = {one.name: one for one in options}
    said = given.pop("type", None)
    if said is None:
        raise sql.error(span, f"this {what} has no type", why="It says what lies there", fix=f"Add type='{next(iter(specs))}'")
    spec = specs.get(str(said.value).lower())
    if spec is None:
        raise sql.error(said.value_span, f"there is no {what} of type {said.value!r}", fix=nearest(str(said.value), specs))
    known = {one.name: one for one in spec.options}
    values: dict[str, Any] = {one.name: one.default for one in spec.options}
    for name, option in given.items():
        if name in known:
            values[name] = _parsed(sql, known[name], option)
        elif name.startswith(spec.passed) and spec.passed:
            values[name] = str(option.value)
        else:
            raise sql.error(
                option.name_span,
                f"{name!r} is no option of a {spec.name} {what}",
                why=_where_else(name, specs),
                fix=nearest(name, ("type", *known)),
            )
    for one in spec.options:
        if one.required and values[one.name] is None:
            raise sql.error(
                span, f"this {spec.name} {what} lacks the option {one.name!r}", why=one.about, fix=f"Add {one.name}=…"
            )
    return spec, values


def _parsed(sql: SqlText, spec: OptionSpec, option: Option) -> Any:
    try:
        return spec.parse(option.value)
    except InvalidOption as error:
        raise sql.error(option.value_span, error.what, why=error.why, fix=error.fix) from error


def _where_else(name: str, specs: Mapping[str, TypeSpec]) -> str:
    others = [one.name for one in specs.values() if any(option.name == name for option in one.options)]
    return f"It is one of {', '.join(others)}" if others else ""
