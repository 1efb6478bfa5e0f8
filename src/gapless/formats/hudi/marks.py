"""Marks of exactly-once commits in the extra metadata of a commit: each commit of ours carries those of all apps on, so that the newest has all.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gapless.errors import CorruptTable
from gapless.model.operation import OperationId, SequenceId, Tally, supersedes

PREFIX = "gapless.txn."
"""What the keys begin with; the app follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The last commit of one app."""

    operation: SequenceId
    kind: str
    """The mode of the sink."""
    version: int
    """Its instant, 17 digits."""
    tally: Tally

    def tally_of(self, asked: OperationId) -> Tally:
        """What the operation asked for counted; of an earlier one that is not known any more."""
        return self.tally if asked == self.operation else Tally()


@dataclass(frozen=True, slots=True)
class Marks:
    """The last commit of each app."""

    by_app: Mapping[str, Mark]

    def recognise(self, operation: OperationId) -> Mark | None:
        """The app's last commit, if this or a later sequence of it was applied."""
        mark = self.by_app.get(operation.app) if isinstance(operation, SequenceId) else None
        return mark if mark is not None and supersedes(mark.operation, operation) else None

    def last(self, app: str) -> int | None:
        """The highest sequence of an app."""
        mark = self.by_app.get(app)
        return None if mark is None else mark.operation.sequence

    def followed_by(self, mark: Mark) -> Marks:
        """These, and one more."""
        return Marks({**self.by_app, mark.operation.app: mark})

    def joined(self, other: Marks) -> Marks:
        """The higher one of each app."""
        apps = {**self.by_app, **other.by_app}
        return Marks({app: _higher(self.by_app.get(app, mark), mark) for app, mark in apps.items()})

    def encode(self) -> dict[str, str]:
        """As the extra metadata of a commit."""
        return {f"{PREFIX}{app}": _encode(mark) for app, mark in sorted(self.by_app.items())}


def marks_of(extra: Mapping[str, str], path: str) -> Marks | None:
    """Those that a commit carries; None for one of another writer. Raises CorruptTable, naming `path`."""
    found = {key.removeprefix(PREFIX): text for key, text in extra.items() if key.startswith(PREFIX)}
    if not found:
        return None
    try:
        return Marks({app: _decode(app, text) for app, text in found.items()})
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(
            f"{path} has a mark of gapless that cannot be read",
            why=f"{type(error).__name__}: {error}",
            fix="Use the release that wrote it, or a newer gapless",
            path=path,
        ) from error


def joined_marks(all_marks: Iterable[Marks]) -> Marks:
    """The highest of each app."""
    found = Marks({})
    for one in all_marks:
        found = found.joined(one)
    return found


def _higher(left: Mark, right: Mark) -> Mark:
    return left if left.operation.sequence > right.operation.sequence else right


def _encode(mark: Mark) -> str:
    counts = {name: count for name in _COUNTS if (count := getattr(mark.tally, name))}
    return json.dumps({"sequence": mark.operation.sequence, "kind": mark.kind, "version": mark.version, **counts})


def _decode(app: str, text: str) -> Mark:
    told = json.loads(text)
    return Mark(
        operation=SequenceId(app, int(told["sequence"])),
        kind=str(told["kind"]),
        version=int(told["version"]),
        tally=Tally(**{name: int(told.get(name, 0)) for name in _COUNTS}),
    )


_COUNTS = ("rows", "segments", "skipped_rows", "removed_rows", "removed_segments", "updated_rows")
