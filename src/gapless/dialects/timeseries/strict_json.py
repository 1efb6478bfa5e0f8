"""JSON as the log says it: strict, without white space, text as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# A commit and each row of a log checkpoint is made by one of these: to look for circles takes as long as all else.
_ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False, ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def json_of(body: Mapping[str, object]) -> str:
    """An object as JSON; raises ValueError for a NaN or an infinity."""
    return _ENCODER.encode(body)


def parse_json(data: bytes) -> Any:
    """What strict JSON says, as `json.loads` does; raises ValueError for anything else, RecursionError."""
    return _DECODER.decode(data.decode(json.detect_encoding(data), "surrogatepass"))
