"""What makes a Delta table's newest version the same as an earlier one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gapless.dialects.delta.actions import (
    Action,
    AddFile,
    Commit,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    TableState,
)
from gapless.dialects.delta.features import raised, supported_features
from gapless.model.horizon import WRITER_HORIZON_NS
from gapless.model.instant import NS_PER

_MOST_COLUMN_ID = "delta.columnMapping.maxColumnId"
_STAY = (
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)
"""Properties that tell of commits that are there, and not of the rows."""
_STAYING_DOMAINS = frozenset({"delta.rowTracking"})


def plan_restore(now: TableState, then: TableState, now_ms: int) -> tuple[Action, ...]:
    """The actions that give a table the files, columns, properties and domains it had `then`; none where it is so `now`.

    The protocol only rises, and so does the highest column id; in-commit timestamps and applied operations stay what they are. `now_ms` is
    the time, in ms since 1970 UTC.
    """
    removed = (RemoveFile.of(file, now_ms) for key, file in now.files.items() if key not in then.files)
    added = (replace(file, data_change=True) for key, file in then.files.items() if key not in now.files)
    return (*_restored_table(now, then), *_restored_domains(now, then), *removed, *added)


def _restored_table(now: TableState, then: TableState) -> Iterator[Protocol | Metadata]:
    protocol = raised(now.protocol, *supported_features(then.protocol))
    if protocol != now.protocol:
        yield protocol
    metadata = replace(then.metadata, configuration=_restored_properties(now.configuration, then.configuration))
    if metadata != now.metadata:
        yield metadata


def _restored_properties(now: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    kept = {name: now[name] for name in _STAY if name in now}
    restored = {name: value for name, value in then.items() if name not in _STAY} | kept
    if _MOST_COLUMN_ID in restored:
        restored[_MOST_COLUMN_ID] = max(restored[_MOST_COLUMN_ID], now.get(_MOST_COLUMN_ID, "0"), key=int)
    return restored


def _restored_domains(now: TableState, then: TableState) -> Iterator[DomainMetadata]:
    for name in sorted(now.domains.keys() | then.domains.keys()):
        before, after = now.domains.get(name), then.domains.get(name)
        if before == after or name in _STAYING_DOMAINS:
            continue
        yield replace(before, removed=True) if after is None and before is not None else after  # type: ignore[misc]


def endangered(
    added: Sequence[AddFile], removed: Mapping[str, RemoveFile], entries: Sequence[tuple[int, Commit, int]], now_ns: int
) -> str | None:
    """The path of a file to be restored that a vacuum may be about to delete; None where there is none.

    `removed` are the tombstones by key, `entries` the commits since the files were live. A vacuum says when it begins and when it is done;
    one that began a day ago is dead.
    """
    cutoff_ms = _cutoff_of_open_vacuum(entries, now_ns)
    for file in added:
        gone = removed.get(file.key)
        if cutoff_ms is not None and (gone is None or (gone.deleted_ms or 0) <= cutoff_ms):
            return file.path
    return None


def _cutoff_of_open_vacuum(entries: Sequence[tuple[int, Commit, int]], now_ns: int) -> int | None:
    """The time before which a vacuum at work deletes what was removed, in ms since 1970 UTC; None where none is at work."""
    open_since: dict[int, int] = {}
    for version, commit, time_ns in entries:
        if commit.operation == "VACUUM END":
            _close(open_since, commit)
        elif commit.operation == "VACUUM START" and now_ns - time_ns < WRITER_HORIZON_NS:
            open_since[version] = time_ns // NS_PER["ms"] - _retention_ms(commit.parameters)
    return max(open_since.values(), default=None)


def _close(open_since: dict[int, int], end: Commit) -> None:
    """Take the vacuum that is done from those at work, cutoffs by the version of their start.

    Ours names it as the version that it was made for. Another's may be any of them; the one that deletes most stays.
    """
    if end.engine.startswith("gapless/"):
        open_since.pop(-1 if end.read_version is None else end.read_version, None)
    elif open_since:
        del open_since[min(open_since, key=lambda version: open_since[version])]


def _retention_ms(parameters: Mapping[str, Any]) -> int:
    said = parameters.get("specifiedRetentionMillis", parameters.get("defaultRetentionMillis", 0))
    try:
        return int(said)
    except (TypeError, ValueError):
        return 0
