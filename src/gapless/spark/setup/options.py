"""The options of `format("gapless")`: one table of them, and their values, read once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gapless.errors import InvalidOption, nearest
from gapless.model.operation import JobId, OperationId, SequenceId, parse_operation_id
from gapless.model.properties import OnOverlap, parse_on_overlap

Use = Literal["read", "write", "stream read", "stream write"]

STORAGE_PREFIX = "storage."
"""Of options of the object store, in obstore's names: `storage.aws_endpoint`."""
_PASSED_ALONG = frozenset(
    {"owner", "location", "provider", "comment", "collation", "external", "is_managed_location", "transient_lastddltime"}
)
"""What Spark itself adds for a table that `CREATE TABLE … USING gapless` made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one read, write or stream, in types of ours; those that were not given have their defaults.

    Each use takes its own from here: `StreamReader(options)` reads `starting_version` to `on_missing_versions` and `columns`,
    `StreamWriter(options, schema, overwrite)` reads `app_id`, `checkpoint_location`, `query_name`, `on_overlap`, `merge_schema`, `new_table`.
    """

    path: str
    """Where the table is, as `gl.open` takes it; `file:/…` too."""
    version: int | None = None
    timestamp: str | None = None
    """ISO text of an instant: the version that was the newest then."""
    start: str | None = None
    """Index values as texts, as `scan` takes them: from `start` to just before `end`."""
    end: str | None = None
    columns: tuple[str, ...] | None = None
    """Columns to give back, in this order; None for all."""
    where: str | None = None
    """SQL of a row of a Delta table: only those for which it is true."""
    entity: Mapping[str, object] = field(default_factory=dict)
    """Values of entity columns: from JSON a value or a list, from `name=value` a list of texts of any type."""
    on_overlap: OnOverlap | None = None
    operation: OperationId | None = None
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    """Of an overwrite of a Delta table: the rows that give way."""
    new_table: NewTable | None = None
    """How a missing table is made; None: it is not."""
    starting_version: int | Literal["earliest", "latest"] | None = None
    """The first version whose changes are given (inclusive)."""
    starting_timestamp: str | None = None
    """ISO text of an instant."""
    change_feed: bool = False
    on_data_change: Literal["error", "skip"] = "error"
    max_files_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    on_missing_versions: Literal["error", "earliest"] = "error"
    app_id: str | None = None
    checkpoint_location: str | None = None
    query_name: str | None = None
    storage: Mapping[str, str] | None = field(default=None, repr=False)
    """Options of the object store, as `gl.open` takes them; None where the environment says all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """What `gl.create` must know of a table that is not there."""

    index: str
    bucket: str
    entity: tuple[str, ...] = ()
    timezone: str | None = None
    unique: bool = False


def parse_options(given: Mapping[str, str], *uses: Use) -> SourceOptions:
    """Read the options that Spark hands over, whose names may have lost their case; `uses` are those that they may be meant for.

    Raises InvalidOption for an option that no use takes, naming the nearest, for a value that is none, and where the path is missing.
    """
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}
    storage: dict[str, str] = {}
    for name, text in given.items():
        if name.lower() in _PASSED_ALONG:
            continue
        if name.lower().startswith(STORAGE_PREFIX):
            storage[name.lower().removeprefix(STORAGE_PREFIX)] = text
            continue
        option = _find(name, uses)
        texts[option.name] = text
        if option.field is not None:
            values[option.field] = option.parse(option.name, text)
    if "path" not in values:
        raise _no_path()
    if "write" in uses or "stream write" in uses:
        values["new_table"] = _new_table(texts)
    _check_together(values)
    return SourceOptions(**values, storage=storage or None)


def check_overwrite(options: SourceOptions) -> None:
    """Raise InvalidOption for an overlap policy of a write whose rows take the place of all others."""
    if options.on_overlap is not None:
        raise InvalidOption(
            f"onOverlap={options.on_overlap!r} in a write that takes the place of all rows",
            why="There is nothing to overlap with then",
            fix='Leave it out; onOverlap=replace in mode "append" takes the place of the rows in the buckets that come',
            option="onOverlap",
            value=options.on_overlap,
        )


def check_append(options: SourceOptions) -> None:
    """Raise InvalidOption for what only an overwrite takes."""
    given = {"overwriteSchema": options.overwrite_schema or None, "replaceWhere": options.replace_where}
    for name, value in given.items():
        if value is not None:
            raise InvalidOption(
                f"{name}={value!r} in a write that adds rows",
                why="It says what gives way to them",
                fix='Leave it out, or say mode("overwrite")',
                option=name,
                value=value,
            )


def _find(name: str, uses: Iterable[Use]) -> _Option:
    fitting = {one.name.lower(): one for one in KNOWN_OPTIONS if not one.uses.isdisjoint(uses)}
    if (option := fitting.get(name.lower())) is not None:
        return option
    elsewhere = next((one for one in KNOWN_OPTIONS if one.name.lower() == name.lower()), None)
    whose = "" if elsewhere is None else f"It is an option of a {' and a '.join(sorted(elsewhere.uses))}"
    raise InvalidOption(
        f'format("gapless") has no option {name if elsewhere is None else elsewhere.name!r} in a {" or a ".join(uses)}',
        why=whose,
        fix=nearest(name, [one.name for one in fitting.values()]) if elsewhere is None else "Leave it out",
        option=name,
        value=name,
    )


def _no_path() -> InvalidOption:
    return InvalidOption(
        'format("gapless") needs to be told where the table is',
        why="Spark passes no options of a CREATE TABLE on to those who read or write it",
        fix='Say .option("path", "…") or load("…"); in SQL SELECT … FROM t WITH (path=\'…\'), or CREATE TEMP VIEW … USING gapless',
        option="path",
        value=None,
    )


def _new_table(texts: Mapping[str, str]) -> NewTable | None:
    index, bucket, entity = (texts.get(name) for name in ("index", "bucket", "entity"))
    if index is None and bucket is None and entity is None:
        return None
    if index is None or bucket is None:
        missing = "index" if index is None else "bucket"
        raise InvalidOption(
            f"the option {missing!r} is missing",
            why="A table that is not there yet is made of index, bucket and, where there are several series, entity",
            fix='Say .option("index", "ts").option("bucket", "1h"), or leave all three out for a table that is there',
            option=missing,
            value=None,
        )
    return NewTable(index=index, bucket=bucket, entity=() if entity is None else _names("entity", entity))


def _check_together(values: Mapping[str, Any]) -> None:
    for one, other in (("version", "timestamp"), ("starting_version", "starting_timestamp")):
        if values.get(one) is not None and values.get(other) is not None:
            raise InvalidOption(
                f"{_NAMES[one]} and {_NAMES[other]} are both given",
                why="Each says which version",
                fix="Leave one of them out",
                option=_NAMES[other],
                value=values[other],
            )


# -- values ------------------------------------------------------------------------------------------------------------


def _invalid(name: str, text: str, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"{name}={text!r} cannot be read", why=why, fix=fix, option=name, value=text)


def _text(_name: str, text: str) -> str:
    return text


def _whole(least: int) -> Callable[[str, str], int]:
    def parse(name: str, text: str) -> int:
        if not re.fullmatch(r"\s*\d{1,18}\s*", text, re.ASCII) or int(text) < least:
            raise _invalid(name, text, f"It is a whole number from {least} up", f"Pass one, such as {max(least, 10)}")
        return int(text)

    return parse


def _flag(name: str, text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise _invalid(name, text, "It is true or false", "Pass one of them") from None


def _choice(*known: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if text.lower() not in known:
            raise _invalid(name, text, f"It is one of {', '.join(known)}", nearest(text.lower(), known))
        return text.lower()

    return parse


def _first_version(name: str, text: str) -> int | str:
    return text.lower() if text.lower() in ("earliest", "latest") else _whole(0)(name, text)


def _names(name: str, text: str) -> tuple[str, ...]:
    """Column names between commas, or a JSON list of them."""
    if not text.lstrip().startswith("["):
        return tuple(part.strip() for part in text.split(","))
    found = _json(name, text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _invalid(name, text, "It is no list of texts", 'Write \'["ts", "price, last"]\'')
    return tuple(found)


def _columns(name: str, text: str) -> tuple[str, ...]:
    return _names(name, text) if text.strip() else ()


def _entity(name: str, text: str) -> Mapping[str, object]:
    """`symbol=NVDA`, or a JSON object of values and lists of values."""
    if not text.lstrip().startswith("{"):
        column, equals, value = text.partition("=")
        if not equals:
            raise _invalid(
                name, text, "A read takes values of entity columns", 'Write symbol=NVDA or \'{"symbol": ["NVDA", "AMD"]}\''
            )
        return {column.strip(): [value.strip()]}
    found: Mapping[str, object] = _json(name, text)
    return found


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise _invalid(name, text, f"It is no JSON: {error}", "Mend it, or write the plain form") from None


def _policy(_name: str, text: str) -> OnOverlap:
    return parse_on_overlap(text.lower())


def _operation(name: str, text: str) -> JobId | SequenceId:
    """A text, or a JSON pair `["app", 42]`."""
    if not text.lstrip().startswith("["):
        return parse_operation_id(text)
    found = _json(name, text)
    return parse_operation_id(tuple(found) if isinstance(found, list) else found)


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Option:
    """An option as users write it, what takes it, the field of `SourceOptions` that holds it, and how its text is read."""

    name: str
    uses: frozenset[Use]
    field: str | None
    parse: Callable[[str, str], object] = _text


_READ: frozenset[Use] = frozenset({"read"})
_WRITE: frozenset[Use] = frozenset({"write"})
_FOLLOW: frozenset[Use] = frozenset({"stream read"})
_SINK: frozenset[Use] = frozenset({"stream write"})

KNOWN_OPTIONS: tuple[_Option, ...] = (
    _Option("path", _READ | _WRITE | _FOLLOW | _SINK, "path"),
    _Option("version", _READ, "version", _whole(0)),
    _Option("timestamp", _READ, "timestamp"),
    _Option("start", _READ, "start"),
    _Option("end", _READ, "end"),
    _Option("columns", _READ | _FOLLOW, "columns", _columns),
    _Option("where", _READ, "where"),
    _Option("entity", _READ, "entity", _entity),
    _Option("entity", _WRITE | _SINK, None),
    _Option("index", _WRITE | _SINK, None),
    _Option("bucket", _WRITE | _SINK, None),
    _Option("onOverlap", _WRITE | _SINK, "on_overlap", _policy),
    _Option("operationId", _WRITE, "operation", _operation),
    _Option("mergeSchema", _WRITE | _SINK, "merge_schema", _flag),
    _Option("overwriteSchema", _WRITE, "overwrite_schema", _flag),
    _Option("replaceWhere", _WRITE, "replace_where"),
    _Option("startingVersion", _FOLLOW, "starting_version", _first_version),
    _Option("startingTimestamp", _FOLLOW, "starting_timestamp"),
    _Option("changeFeed", _FOLLOW, "change_feed", _flag),
    _Option("onDataChange", _FOLLOW, "on_data_change", _choice("error", "skip")),
    _Option("maxFilesPerTrigger", _FOLLOW, "max_files_per_trigger", _whole(1)),
    _Option("maxBytesPerTrigger", _FOLLOW, "max_bytes_per_trigger", _whole(1)),
    _Option("onMissingVersions", _FOLLOW, "on_missing_versions", _choice("error", "earliest")),
    _Option("appId", _SINK, "app_id"),
    _Option("checkpointLocation", _SINK, "checkpoint_location"),
    _Option("queryName", _SINK, "query_name"),
)
_NAMES = {one.field: one.name for one in KNOWN_OPTIONS}
