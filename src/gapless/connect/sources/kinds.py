"""Sources other than tables, by the kind that their URL begins with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from gapless.connect.sources.positioned import PositionedSource
from gapless.errors import InvalidOption, nearest

OPENERS: Mapping[str, str] = {
    "cdc": "gapless.cdc.log_source:open_log_source",
    "files": "gapless.connect.sources.files:open_file_source",
    "http": "gapless.connect.sources.http:open_http_source",
    "https": "gapless.connect.sources.http:open_http_source",
    "kafka": "gapless.connect.sources.kafka:open_kafka_source",
    "sql": "gapless.connect.sources.sql:open_sql_source",
}
"""Each takes what comes after the kind and its colon, and options by name. Its module is imported when it is asked for: Spark makes a
source in a process of its own for each run.
"""
_CHANGING = "on_schema_change"
"""An option of all of them."""
_WHOLE = ("http", "https")
"""These take the whole URL."""


def open_kind(kind: str, location: str, options: Mapping[str, Any]) -> PositionedSource:
    """A source of one of these kinds. Raises InvalidOption for an option that it does not have or needs, and as the kind says."""
    opener: Callable[..., PositionedSource] = resolve_name(OPENERS[kind])
    taken = {name: one for name, one in inspect.signature(opener).parameters.items() if one.kind is one.KEYWORD_ONLY}
    known = (*taken, _CHANGING)
    for name in options:
        if name not in known:
            raise InvalidOption(
                f"{name}= is no option of a source of {kind}",
                why=f"It has {', '.join(known)}",
                fix=nearest(name, known),
                option=name,
                value=None,  # it may be a secret
            )
    for name, one in taken.items():
        if one.default is one.empty and name not in options:
            raise InvalidOption(
                f"a source of {kind} needs {name}=", why="It has no default", fix=f"Pass {name}=", option=name, value=None
            )
    own = {name: value for name, value in options.items() if name != _CHANGING}
    source = opener(f"{kind}:{location}" if kind in _WHOLE else location, **own)
    source.on_schema_change(options.get(_CHANGING, "error"))
    return source
