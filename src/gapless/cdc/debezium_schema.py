"""Kafka Connect's schema of values, as JSON converters send it beside them. Pure."""

from __future__ import annotations

from gapless.cdc.json_values import Json
from gapless.errors import InvalidRecord, shorten

_HIGHEST = (1 << 63) - 1


def with_schema(payload: dict[str, Json], path: str) -> dict[str, Json]:
    """A payload with its schema. Raises InvalidRecord for integers beyond int64, and lists of several types."""
    return {"schema": {**_schema_of(payload, path), "optional": False}, "payload": payload}


def _schema_of(value: Json, path: str) -> dict[str, Json]:
    """The schema of one value; null is an optional text."""
    if isinstance(value, dict):
        listed = [{**_schema_of(one, f"{path}.{name}"), "field": name} for name, one in value.items()]
        return {"type": "struct", "fields": listed, "optional": True}
    if isinstance(value, list):
        kinds = [_schema_of(one, f"{path}[{place}]") for place, one in enumerate(value) if one is not None]
        if any(kind != kinds[0] for kind in kinds):
            raise _refuse(path, value, "Its elements have several types, and an array of Kafka Connect has one")
        return {"type": "array", "items": kinds[0] if kinds else {"type": "string", "optional": True}, "optional": True}
    if isinstance(value, bool):
        return {"type": "boolean", "optional": True}
    if isinstance(value, int):
        if value > _HIGHEST:
            raise _refuse(path, value, "Kafka Connect's integers end at 2^63 - 1")
        return {"type": "int64", "optional": True}
    return {"type": "double" if isinstance(value, float) else "string", "optional": True}


def _refuse(path: str, value: Json, why: str) -> InvalidRecord:
    return InvalidRecord(
        f"{path} has no schema of Kafka Connect: {shorten(value)}",
        why=why,
        fix="Send it without schema=True",
        field=path,
        value=value,
    )
