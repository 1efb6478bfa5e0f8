"""Encode and decode `AddSegment` as JSON."""

from __future__ import annotations

import base64
from binascii import a2b_base64
from collections.abc import Mapping
from datetime import date
from typing import Any, cast

from gapless.formats.timeseries.codec.json_values import decode_bound, encode_bound
from gapless.model.index import ENTITY_TYPES, EntityType, Identity, IdentityValue
from gapless.model.instant import format_instant, parse_instant
from gapless.model.segment import Bounds, CoverageRef, InlineCoverage, Segment, SidecarCoverage
from gapless.model.stats import ColumnStats

_TAG_OF: dict[EntityType, str] = {
    "utf8": "utf8", "int8": "int32", "int16": "int32", "int32": "int32", "uint8": "int32", "uint16": "int32", "date": "int32",
    "bool": "int32", "int64": "int64", "uint32": "int64", "uint64": "uint64",
}  # fmt: skip
_RANGES = {"int64": (-(2**63), 2**63), "uint64": (0, 2**64)}
_KIND_OF_BOUNDS = {"timestamp": "timestamp", "int64": "int64", "u_int64": "uint64"}


def encode_segment(segment: Segment) -> dict[str, object]:
    """The action's body: protocol 7's keys, then ours."""
    body: dict[str, object] = {
        "path": segment.path,
        "format": "parquet",
        "entity_layout": _encode_layout(segment),
        "index_min": _encode_index_value(segment, segment.bounds.first),
        "index_max": _encode_index_value(segment, segment.bounds.last),
        "row_count": segment.rows,
    }
    if segment.size is not None:
        body["file_size"] = segment.size
    match segment.coverage:
        case SidecarCoverage(path, checksum, index):
            keys = {"coverage_path": path, "coverage_checksum": checksum, "coverage_index_checksum": index}
            body |= {key: value for key, value in keys.items() if value}
        case InlineCoverage(data):
            body["coverage"] = base64.b64encode(data).decode()
    if segment.identity_types and not set(segment.identity_types) <= {"utf8", "int32", "int64", "uint64"}:
        body["identity"] = {"types": list(segment.identity_types)}
    optional = {"checksum": segment.checksum, "footer_checksum": segment.footer_checksum, "sorted_by": list(segment.sorted_by)}
    optional["clustered_by"] = list(segment.clustered_by)
    body |= {key: value for key, value in optional.items() if value}
    if segment.stats:
        body["stats"] = {name: _encode_stats(stats) for name, stats in segment.stats.items()}
    if not segment.data_change:
        body["data_change"] = False
    if segment.data is not None:
        body["data"] = base64.b64encode(segment.data).decode()
    return body


def decode_segment(body: Mapping[str, Any]) -> Segment:
    """A segment from the action's body. Raises KeyError, ValueError or TypeError where it is malformed."""
    if body["format"] != "parquet":
        raise ValueError(f"segment format {body['format']!r}")
    identity, types = _decode_layout(body["entity_layout"], body.get("identity"))
    kind, first = _decode_index_value(body["index_min"])
    size = None if body.get("file_size") is None else _count(body["file_size"])
    data = _decode_bytes(body.get("data"))
    if data is not None and len(data) != size:
        raise ValueError(f"{len(data)} bytes of data, and a file_size of {size}")
    return Segment(
        path=body["path"],
        rows=_count(body["row_count"]),
        size=size,
        bounds=Bounds(first=first, last=_decode_index_value(body["index_max"])[1]),
        index_type=kind,
        identity=identity,
        identity_types=types,
        coverage=_decode_coverage(body),
        stats={name: _decode_stats(stats) for name, stats in body.get("stats", {}).items()},
        checksum=_text(body.get("checksum")),
        footer_checksum=_text(body.get("footer_checksum")),
        sorted_by=tuple(body.get("sorted_by", ())),
        clustered_by=tuple(body.get("clustered_by", ())),
        data_change=bool(body.get("data_change", True)),
        data=data,
    )


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _encode_index_value(segment: Segment, value: int) -> dict[str, object]:
    if segment.index_type == "timestamp":
        return {"type": "timestamp", "value": format_instant(value)}
    return {"type": {"int64": "int64", "uint64": "u_int64"}[segment.index_type], "value": value}


def _decode_index_value(body: Mapping[str, Any]) -> tuple[Any, int]:
    kind = _KIND_OF_BOUNDS[body["type"]]
    return kind, parse_instant(body["value"])[0] if kind == "timestamp" else _whole(body["value"], *_RANGES[kind])


def _whole(number: object, low: int, end: int) -> int:
    """A whole number of `[low, end)`; a number with a fraction, a text or a truth value is none."""
    if type(number) is not int or not low <= number < end:
        raise ValueError(f"{number!r} is no whole number from {low} up to {end}")
    return number


def _count(number: object) -> int:
    return _whole(number, 0, 2**63)


def _encode_layout(segment: Segment) -> object:
    if segment.identity is None:
        return "Mixed"
    if not segment.identity:
        return "NotApplicable"
    pairs = zip(segment.identity_types, segment.identity, strict=True)
    return {"Single": [{"type": _TAG_OF[kind], "value": _encode_identity_value(value)} for kind, value in pairs]}


def _encode_identity_value(value: IdentityValue) -> object:
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    return int(value) if isinstance(value, bool) else value


def _decode_layout(layout: Any, ours: Mapping[str, Any] | None) -> tuple[Identity | None, tuple[EntityType, ...]]:
    if layout == "NotApplicable":
        return (), ()
    if layout == "Mixed":
        return None, ()
    types = tuple(cast("EntityType", t) for t in (ours["types"] if ours else (part["type"] for part in layout["Single"])))
    if unknown := set(types) - set(ENTITY_TYPES):
        raise ValueError(f"entity values of type {min(unknown)!r}")
    values = zip(types, (part["value"] for part in layout["Single"]), strict=True)
    return tuple(_decode_identity_value(kind, value) for kind, value in values), types


def _decode_identity_value(kind: EntityType, value: Any) -> IdentityValue:
    match kind:
        case "utf8":
            return str(value)
        case "date":
            return date.fromordinal(date(1970, 1, 1).toordinal() + int(value))
        case "bool":
            return bool(value)
        case _:
            return int(value)


def _decode_coverage(body: Mapping[str, Any]) -> CoverageRef | None:
    if (inline := _decode_bytes(body.get("coverage"))) is not None:
        return InlineCoverage(inline)
    path = body.get("coverage_path")
    if path is None:
        return None
    return SidecarCoverage(path, _text(body.get("coverage_checksum")), _text(body.get("coverage_index_checksum")))


def _decode_bytes(text: Any) -> bytes | None:
    return None if text is None else a2b_base64(text, strict_mode=True)


def _encode_stats(stats: ColumnStats) -> dict[str, object]:
    body: dict[str, object] = {}
    if stats.min is not None:
        body["min"] = encode_bound(stats.min)
    if stats.max is not None:
        body["max"] = encode_bound(stats.max)
    if stats.nulls is not None:
        body["nulls"] = stats.nulls
    if stats.nans is not None:
        body["nans"] = stats.nans
    return body


def _decode_stats(body: Mapping[str, Any]) -> ColumnStats:
    nulls, nans = body.get("nulls"), body.get("nans")
    return ColumnStats(
        min=decode_bound(body.get("min")),
        max=decode_bound(body.get("max")),
        nulls=None if nulls is None else _count(nulls),
        nans=None if nans is None else _count(nans),
    )


def identity_of(body: Mapping[str, Any]) -> Identity | None:
    """The one identity that a segment holds, by `entity_layout` and `identity` of its body; None where it holds several.

    Raises as `decode_segment` does.
    """
    return _decode_layout(body["entity_layout"], body.get("identity"))[0]
