"""A definition as SQL that defines it again."""

from __future__ import annotations

from collections.abc import Collection

from gapless.pipelines.language.statements import (
    CreateLookupTable,
    CreateSink,
    CreateSource,
    CreateView,
    Definition,
    Option,
)
from gapless.spark.reading.columns import quoted

MASK = "***"


def show_create(statement: Definition, secrets: Collection[str]) -> str:
    """The CREATE statement, with `secrets`, names of options, masked unless they only name where a secret lies."""
    lines = [f"CREATE {statement.thing} {_name(statement.name)}"]
    if isinstance(statement, CreateSource | CreateLookupTable):
        items = [f"{_name(one.name)} {one.type}{' NOT NULL' if one.not_null else ''}" for one in statement.columns]
        if isinstance(statement, CreateLookupTable):
            items.append(f"PRIMARY KEY ({', '.join(map(_name, statement.primary_key))})")
        elif statement.watermark is not None:
            column = _name(statement.watermark.column)
            items.append(f"WATERMARK FOR {column} AS {column} - INTERVAL '{statement.watermark.delay}'")
        if items:
            lines[0] += " (\n  " + ",\n  ".join(items) + "\n)"
    if isinstance(statement, CreateSource | CreateLookupTable | CreateSink):
        lines.append("WITH (\n  " + ",\n  ".join(_option(one, secrets) for one in statement.options) + "\n)")
    if isinstance(statement, CreateView | CreateSink):
        lines.append(f"AS {statement.query.sql}")
    return "\n".join(lines) + ";"


def _name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else quoted(name)


def _option(option: Option, secrets: Collection[str]) -> str:
    name = ".".join(map(_name, option.name.split(".")))
    value = option.value
    if option.name in secrets and not str(value).startswith("${"):
        value = MASK
    if isinstance(value, bool):
        return f"{name} = {'TRUE' if value else 'FALSE'}"
    if isinstance(value, int | float):
        return f"{name} = {value}"
    written = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"{name} = '{written}'"
