"""Statistics as checkpoints have them in columns (`stats_parsed`), as their JSON text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any


def stats_text(body: Mapping[str, Any] | None) -> str | None:
    """The JSON text of a file's statistics that were read as a struct; None where there are none."""
    return None if body is None else _text(body)


def _text(value: Any) -> str:
    match value:
        case dict():
            inner = (f"{json.dumps(name)}:{_text(one)}" for name, one in value.items() if _is_told(one))
            return f"{{{','.join(inner)}}}"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case int() | float():
            return repr(value)
        case datetime():
            zone = "" if value.tzinfo is None else "Z"
            naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            # Many writers cut bounds to milliseconds, and readers widen texts of so many digits again.
            grain = "microseconds" if value.microsecond % 1_000 else "milliseconds"
            return f'"{naive.isoformat(timespec=grain)}{zone}"'
        case date():
            return f'"{value.isoformat()}"'
        case bytes():
            return json.dumps(value.decode(errors="replace"), ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def _is_told(value: Any) -> bool:
    """Whether JSON can say it; a bound that is no number proves nothing."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))
