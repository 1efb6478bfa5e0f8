"""JSON that keeps 64 bits: which values a record may hold, and their text. Pure."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from gapless.errors import InvalidRecord, shorten

Json = Any
"""None, bool, int, float, str, list of these, dict of these by text."""
LEAST_INT: Final = -(1 << 63)
GREATEST_INT: Final = (1 << 64) - 1
"""The integers that some 64-bit type of a database holds, signed or not."""
_DEEPEST: Final = 100
"""As deep as BSON nests, and far from where Python's JSON ends."""


def copy_json(value: object, path: str, depth: int = 0) -> Json:
    """A copy of a value that JSON holds exactly; `path` names it in messages, such as `_after`. Raises InvalidRecord."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if LEAST_INT <= value <= GREATEST_INT:
            return int(value)
        raise _refuse(path, value, "It does not fit into 64 bits", "Send it as text")
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise _refuse(path, value, "JSON has finite numbers alone", 'Send it as text, or as {"$numberDouble": "NaN"}')
    if depth >= _DEEPEST:
        raise _refuse(path, value, f"It is nested more than {_DEEPEST} deep", "Send the inner part as text")
    if isinstance(value, list | tuple):
        return [copy_json(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise _refuse(
                    path, name, f"A name in it is a {type(name).__name__}, and JSON's names are texts", "Send it as text"
                )
        return {str(name): copy_json(one, f"{path}.{name}", depth + 1) for name, one in value.items()}
    fix = "Send bytes, times and decimals as text, or in MongoDB's extended JSON, as bson.json_util writes it"
    raise _refuse(path, value, f"JSON has no {type(value).__name__}", fix)


def json_text(value: Json) -> str:
    """The text of a checked value, in ASCII, names in their order."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def parse_json(text: str | bytes, what: str) -> Json:
    """A value out of its text; `what` names that in messages. Raises InvalidRecord for what is no JSON, or holds a name twice."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRecord(
            f"{what} cannot be read as JSON: {shorten(text)}",
            why=f"{type(error).__name__}: {error}",
            fix="Send it as JSON in UTF-8",
            field=what,
            value=text,
        ) from error


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} is there twice")
    return found


def _refuse(path: str, value: object, why: str, fix: str) -> InvalidRecord:
    return InvalidRecord(f"{path} is {shorten(value)}", why=why, fix=fix, field=path, value=value)
