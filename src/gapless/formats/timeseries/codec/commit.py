"""Encode and decode time-series commits: protocol 7 of timeseries-table-format with our keys on top (docs/spec/timeseries.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.errors import CallError, CorruptTable, TableError
from gapless.formats.timeseries.actions import (
    Action,
    AddSegment,
    Commit,
    ExpireVersions,
    ForgetSegments,
    RemoveSegment,
    SetTag,
    SetTransaction,
    UpdateTableMeta,
)
from gapless.formats.timeseries.codec.json_values import (
    check_seal,
    decode_operation,
    encode_operation,
    json_of,
    parse_json,
    seal,
)
from gapless.formats.timeseries.codec.metadata import decode_meta, encode_meta
from gapless.formats.timeseries.codec.segment import decode_segment, encode_segment
from gapless.model.instant import format_instant, parse_instant
from gapless.model.segment import relative_path


def encode_commit(commit: Commit, version: int, time_ns: int) -> bytes:
    """Strict JSON without white space, sealed by a checksum; 64-bit integers are written out in full."""
    envelope = {
        "version": version,
        "base_version": version - 1,
        "timestamp": format_instant(time_ns),
        "commit_id": commit.id,
        "operation": commit.operation,
        "engine": commit.engine,
        "parameters": dict(commit.parameters),
        **({} if commit.duration_ms is None else {"duration_ms": commit.duration_ms}),
        "actions": [_encode_action(action) for action in commit.actions],
    }
    return seal(json_of(envelope).encode())


def _encode_action(action: Action) -> dict[str, object]:
    match action:
        case UpdateTableMeta(meta):
            return {"UpdateTableMeta": encode_meta(meta)}
        case AddSegment(segment):
            return {"AddSegment": encode_segment(segment)}
        case RemoveSegment(path):
            return {"RemoveSegment": {"path": path}}
        case SetTransaction(operation, tally, kind):
            return {"SetTransaction": encode_operation(operation, tally, kind)}
        case SetTag(name, tagged):
            return {"SetTag": {"name": name, "version": tagged}}
        case ExpireVersions(before):
            return {"ExpireVersions": {"before": before}}
        case ForgetSegments(paths):
            return {"ForgetSegments": {"paths": list(paths)}}


def decode_commit(data: bytes, version: int, path: str) -> tuple[Commit, int]:
    """The commit and its time. Keys and actions that are not known are passed over, as the format asks.

    Raises CorruptTable for anything that is not such a commit, UnsupportedTable for what this release cannot honour.
    """
    try:
        envelope = parse_json(data)
        check_seal(data, needed="commit_id" in envelope)
        _check_version(envelope["version"], version)
        actions = tuple(a for raw in envelope["actions"] if (a := _decode_action(raw, path)) is not None)
        time_ns, _ = parse_instant(envelope["timestamp"])
        commit = Commit(
            id=str(envelope.get("commit_id", "")),
            operation=str(envelope.get("operation") or _guess_operation(actions, version)),
            engine=str(envelope.get("engine", "timeseries-table-format")),
            parameters=dict(envelope.get("parameters", {})),
            duration_ms=None if envelope.get("duration_ms") is None else _whole(envelope["duration_ms"]),
            actions=actions,
        )
    except TableError:
        raise
    except (CallError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise _unreadable(data, path, error) from error
    return commit, time_ns


_HEAD_BYTES = 128
"""Within so many bytes of a commit of ours its time is written: only two versions come before it."""


def has_commit_time(data: bytes, time_ns: int) -> bool:
    """Whether the beginning of a commit says this time, spelled as `encode_commit` spells it."""
    return f'"timestamp":"{format_instant(time_ns)}"'.encode() in data[:_HEAD_BYTES]


def _unreadable(data: bytes, path: str, error: Exception) -> CorruptTable:
    # timeseries-table-format writes a commit in place: a reader may meet one under way, or what a crash left of it.
    unfinished = "where CURRENT names an earlier version and no writer is at work, that never was a commit: remove the file"
    return CorruptTable(
        f"commit {path} cannot be read: {type(error).__name__}: {error}",
        why="It is torn, altered, or no commit of a time-series table" if data else "It is empty: its writer did not finish",
        fix=f"Bring the file back from a backup; or, {unfinished}",
        path=path,
    )


def _decode_action(raw: Mapping[str, Any], path: str) -> Action | None:
    ((name, body),) = raw.items()
    match name:
        case "UpdateTableMeta":
            return UpdateTableMeta(decode_meta(body, path))
        case "AddSegment":
            return AddSegment(decode_segment(body))
        case "RemoveSegment":
            return RemoveSegment(relative_path(body["path"]))
        case "SetTransaction":
            return SetTransaction(*decode_operation(body))
        case "SetTag":
            return SetTag(str(body["name"]), None if body["version"] is None else _whole(body["version"]))
        case "ExpireVersions":
            return ExpireVersions(_whole(body["before"]))
        case "ForgetSegments":
            return ForgetSegments(tuple(relative_path(path) for path in body["paths"]))
    return None


def _whole(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{number!r} is no count")
    return number


def _guess_operation(actions: tuple[Action, ...], version: int) -> str:
    """A name for another writer's commit, from what it did."""
    kinds = {type(action) for action in actions}
    if version == 1:
        return "create"
    if RemoveSegment in kinds:
        return "rewrite"
    return "append" if AddSegment in kinds else "alter"


def _check_version(found: object, version: int) -> None:
    if found != version or isinstance(found, bool):
        raise ValueError(f"it says it is version {found}")
