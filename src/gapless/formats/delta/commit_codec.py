"""Encode and decode Delta commits: JSON, one action a line, `commitInfo` first.

The two properties that say from which commit on a table has in-commit timestamps are filled in here, since only the commit knows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from gapless.errors import CallError, CorruptTable, TableError
from gapless.formats.delta.action_codec import NAMES, decode_action, encode_action
from gapless.formats.delta.actions import Action, Commit, Json, Metadata
from gapless.formats.delta.file_lines import LONG_BYTES, decode_file_lines, find_file_lines
from gapless.model.instant import NS_PER
from gapless.model.operation import OperationId, SequenceId, Tally, parse_operation_id

ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIME = "delta.inCommitTimestampEnablementTimestamp"
_OPEN = "00"
"""What the properties are until the version and the time of the commit are known: a number, in no spelling that a writer gives it."""


def opened(metadata: Metadata) -> Metadata:
    """The metadata of a commit that switches in-commit timestamps on in a table that has commits without them."""
    return replace(metadata, configuration={**metadata.configuration, ENABLEMENT_VERSION: _OPEN, ENABLEMENT_TIME: _OPEN})


def dated(metadata: Metadata, version: int, time_ns: int) -> Metadata:
    """The same metadata; where it was `opened`, with the version and the commit time (nanoseconds since 1970 UTC) that it has at last."""
    if metadata.configuration.get(ENABLEMENT_VERSION) != _OPEN:
        return metadata
    enabled = {ENABLEMENT_VERSION: str(version), ENABLEMENT_TIME: str(time_ns // NS_PER["ms"])}
    return replace(metadata, configuration={**metadata.configuration, **enabled})


_ORDER = {kind: place for place, kind in enumerate(NAMES)}
_OURS = "gapless"
"""What is ours in `commitInfo`, under one key."""
SOURCE_VERSION = "gapless.version"
"""The key in `commitInfo` that says which version of another table a commit publishes."""
_INFO_KEY = b'"commitInfo"'
_INFO = b"{" + _INFO_KEY + b":"
_LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999; a later one is no time that was meant, and no one could be shown it."""
_TALLY = tuple(one.name for one in fields(Tally))
DAMAGE = (CallError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What decoding raises for anything but what the protocol has there."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)
_COMPACT = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def encode_commit(commit: Commit, version: int, time_ns: int) -> bytes:
    """Strict JSON without white space; `time_ns` is the commit time since 1970 UTC, of which whole milliseconds are written."""
    actions = sorted(commit.actions, key=lambda action: _ORDER[type(action)])
    dated_actions = (dated(action, version, time_ns) if isinstance(action, Metadata) else action for action in actions)
    lines = [{"commitInfo": _encode_info(commit, time_ns // NS_PER["ms"])}, *map(encode_action, dated_actions)]
    return "".join(f"{encode_json(line)}\n" for line in lines).encode()


def encode_json(body: Json) -> str:
    """Strict, compact JSON."""
    return _COMPACT.encode(body)


def has_commit_time(data: bytes, time_ns: int) -> bool:
    """Whether a commit begins with this time, spelled as `encode_commit` and others spell it."""
    prefix = b"%d," % (time_ns // NS_PER["ms"])
    return data.startswith((b'{"commitInfo":{"inCommitTimestamp":' + prefix, b'{"commitInfo":{"timestamp":' + prefix)) and (
        time_ns % NS_PER["ms"] == 0
    )


def _encode_info(commit: Commit, time_ms: int) -> dict[str, Json]:
    if commit.info:  # another's commit, kept as its writer left it
        return dict(commit.info)
    ours = {
        "operation_id": None if commit.operation_id is None else _encode_operation(commit.operation_id),
        "tally": None if commit.tally is None else {name: n for name in _TALLY if (n := getattr(commit.tally, name))},
        "duration_ms": commit.duration_ms,
    }
    body = {
        "inCommitTimestamp": time_ms if commit.in_commit_time else None,
        "timestamp": time_ms,
        "operation": commit.operation,
        "operationParameters": {name: _parameter(value) for name, value in commit.parameters.items()},
        "readVersion": commit.read_version if commit.read_version is not None and commit.read_version >= 0 else None,
        "isolationLevel": commit.isolation or None,
        "isBlindAppend": commit.blind_append,
        "operationMetrics": {name: str(count) for name, count in commit.metrics.items()},
        "tags": dict(commit.tags) or None,
        "engineInfo": commit.engine or None,
        "txnId": commit.id or None,
        SOURCE_VERSION: commit.source_version,
        _OURS: {name: value for name, value in ours.items() if value is not None},
    }
    return {name: value for name, value in body.items() if value is not None}


def _parameter(value: Json) -> str | None:
    """Other readers expect parameters to be texts; what is none is written as JSON."""
    return value if value is None or isinstance(value, str) else encode_json(value)


def _encode_operation(operation: OperationId) -> Json:
    return [operation.app, operation.sequence] if isinstance(operation, SequenceId) else operation.id


def decode_commit(data: bytes, path: str) -> tuple[Commit, int]:
    """The commit and its time in nanoseconds since 1970 UTC; 0 where it says none.

    Raises CorruptTable, naming file and line, for anything that is no commit; UnsupportedTable for what this release cannot honour.
    """
    info, actions = _decode_long(data, path) or _decode_lines(data, path)
    try:
        return _commit_of(info, tuple(actions)), _time_ms(info) * NS_PER["ms"]
    except DAMAGE as error:
        raise damaged(path, "its commitInfo", error) from error


Decoded = tuple[Mapping[str, Any], list[Action]]
"""What `commitInfo` says, and the actions."""


def _decode_long(data: bytes, path: str) -> Decoded | None:
    """What the lines of a long commit say; None where it is short, or must be decoded line by line."""
    start, end = find_file_lines(data) if len(data) >= LONG_BYTES else (0, 0)
    files = decode_file_lines(data, start, end) if end - start >= LONG_BYTES else None
    if files is None:
        return None
    info: Mapping[str, Any] = {}
    actions: list[Action] = []
    try:
        for lines, then in ((data[:start], files), (data[end:], ())):
            if lines and not lines.isspace():
                said, found = _decode_lines(lines, path)
                info = said or info
                actions += found
            actions += then
    except TableError:
        return None  # of which line is told by its number in the whole
    return info, actions


def _decode_lines(data: bytes, path: str) -> Decoded:
    info: Mapping[str, Any] = {}
    actions: list[Action] = []
    for number, body in json_lines(data, path):
        try:
            ((name, inner),) = body.items()
            if name == "commitInfo":
                info = inner
            elif (action := decode_action(name, inner, path)) is not None:
                actions.append(action)
        except TableError:
            raise
        except DAMAGE as error:
            raise damaged(path, f"line {number}", error) from error
    return info, actions


def json_lines(data: bytes, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a commit, or of a checkpoint in JSON, with the numbers of their lines, from 1. Raises CorruptTable."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise damaged(path, "its text", error) from error
    lines = text.split("\n")
    if not text.strip():
        raise damaged(path, "its text", ValueError("it is empty"))
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line and not line.isspace()]
    try:
        # One call for all is several times faster; where it fails, the line is looked for.
        bodies = _STRICT.decode(f"[{','.join(line for _, line in numbered)}]")
    except (ValueError, RecursionError):
        bodies = ()
    if "\\u" in text:
        try:
            # Half a surrogate can be escaped, and never be written again.
            json.dumps(bodies, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise damaged(path, "its text", error) from error
    if len(bodies) == len(numbered):
        yield from zip((number for number, _ in numbered), bodies, strict=True)
        return
    for number, line in numbered:
        try:
            yield number, _STRICT.decode(line)
        except (ValueError, RecursionError) as error:
            raise damaged(path, f"line {number}", error) from error


def commit_time(data: bytes, path: str) -> int:
    """The time that `decode_commit` gives, by the line of its commitInfo alone where there is but one. Raises as it does."""
    start = 0 if data.startswith(_INFO) else data.find(b"\n" + _INFO) + 1
    alone = data.startswith(_INFO, start) and data.count(_INFO_KEY) == 1
    return decode_commit(data[start:].partition(b"\n")[0] if alone else data, path)[1]


def _commit_of(info: Mapping[str, Any], actions: tuple[Action, ...]) -> Commit:
    ours = info.get(_OURS)
    stored = ours if isinstance(ours, dict) else {}
    tally, operation_id, duration_ms = stored.get("tally"), stored.get("operation_id"), stored.get("duration_ms")
    read_version, source_version = info.get("readVersion"), info.get(SOURCE_VERSION)
    return Commit(
        id=_text(info, "txnId"),
        operation=_text(info, "operation"),
        parameters=_mapping(info, "operationParameters"),
        metrics=_metrics(_mapping(info, "operationMetrics")),
        blind_append=info.get("isBlindAppend") is True,
        isolation=_text(info, "isolationLevel"),
        engine=_text(info, "engineInfo"),
        read_version=read_version if isinstance(read_version, int) else None,
        in_commit_time="inCommitTimestamp" in info,
        duration_ms=duration_ms if isinstance(duration_ms, int) and 0 <= duration_ms <= _LAST_MS else None,
        operation_id=None if operation_id is None else _decode_operation(operation_id),
        tally=None if tally is None else Tally(**{name: int(tally[name]) for name in _TALLY if name in tally}),
        tags={name: str(value) for name, value in _mapping(info, "tags").items()} if ours is not None else {},
        source_version=source_version if isinstance(source_version, int) else None,
        info=info if ours is None else {},
        actions=actions,
    )


def _decode_operation(raw: Any) -> OperationId:
    return parse_operation_id(tuple(raw) if isinstance(raw, list) else raw)


def _text(info: Mapping[str, Any], name: str) -> str:
    found = info.get(name)
    return found if isinstance(found, str) else ""


def _mapping(info: Mapping[str, Any], name: str) -> Mapping[str, Json]:
    found = info.get(name)
    return found if isinstance(found, dict) else {}


def _metrics(raw: Mapping[str, Any]) -> dict[str, int]:
    """The metrics that are whole numbers; other writers say texts and numbers, and not only whole ones."""
    found = {}
    for name, value in raw.items():
        text = str(value)
        if text.removeprefix("-").isdecimal():
            found[name] = int(text)
    return found


def _time_ms(info: Mapping[str, Any]) -> int:
    time_ms = info.get("inCommitTimestamp")
    time_ms = info.get("timestamp") if time_ms is None else time_ms
    return time_ms if isinstance(time_ms, int) and not isinstance(time_ms, bool) and 0 < time_ms <= _LAST_MS else 0


def damaged(path: str, where: str, error: Exception) -> CorruptTable:
    """The error for an object of the log that is not what it should be; `where` says which part of it."""
    return CorruptTable(
        f"{path} cannot be read: {where}: {type(error).__name__}: {error}",
        why="It is torn or altered, or no part of a Delta log",
        fix="Bring the file back from a backup, or open a version before it",
        path=path,
    )
