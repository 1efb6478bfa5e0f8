"""Values that strict JSON can say, and their texts."""

from __future__ import annotations

import json
from typing import Any

Plain = Any
"""None, bool, int, float (finite), str, or a list or dict of these."""


def json_text(value: Plain) -> str:
    """Strict JSON of a value, in one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def cell_text(value: Plain) -> str:
    """A value as one text, for CSV and printed tables; null is the empty text.

    >>> cell_text([1, None])
    '[1, null]'
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def encode_json(value: Plain) -> bytes:
    """A JSON document as UTF-8; what is no Unicode (a file name's stray byte) becomes an escape that reads back."""
    return json_text(value).encode("utf-8", "backslashreplace")
