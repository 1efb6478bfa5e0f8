"""Row Tracking of Delta (PROTOCOL.md, "Row Tracking"): row ids and commit versions of the files that a commit adds. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from msgspec import structs

from gapless.errors import CorruptTable
from gapless.formats.delta.actions import Action, AddFile, Commit, DomainMetadata, TableState
from gapless.formats.delta.features import supports
from gapless.formats.delta.stats_codec import rows_of

DOMAIN = "delta.rowTracking"
"""The domain that says the highest row id that was ever given."""
PRESERVED = "delta.rowTracking.preserved"
"""The tag of a commit that says whether rows which it copied keep their ids and versions."""
_ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
_COMMIT_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"


def is_tracked(state: TableState) -> bool:
    """Whether every file that is added to the table needs row ids."""
    return supports(state.protocol, "rowTracking") and not _flag(state, "delta.rowTrackingSuspended")


def _flag(state: TableState, name: str) -> bool:
    return state.configuration.get(name, "false").lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedColumns:
    """The columns of files, none of the table's, that hold row ids and commit versions of rows which were copied."""

    row_id: str
    commit_version: str

    @classmethod
    def of(cls, state: TableState) -> Self | None:
        """Those of a table in which row ids can be relied upon; None where they cannot, so that nothing is to be preserved."""
        if not (is_tracked(state) and _flag(state, "delta.enableRowTracking")):
            return None
        row_id, version = (state.configuration.get(name) for name in (_ROW_ID, _COMMIT_VERSION))
        return cls(row_id=row_id, commit_version=version) if row_id and version else None


def high_water_mark(state: TableState) -> int:
    """The highest row id that was given so far; -1 where none was. Raises CorruptTable where the log says none that is a number."""
    domain = state.domains.get(DOMAIN)
    return -1 if domain is None else _mark(domain)


def _mark(domain: DomainMetadata) -> int:
    try:
        return int(json.loads(domain.configuration)["rowIdHighWaterMark"])
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptTable(
            f"the log's domain {DOMAIN} says {domain.configuration!r}, which has no rowIdHighWaterMark",
            why="Row ids could be given twice",
            fix="Mend it with the tool that wrote it",
            path="_delta_log",
        ) from error


def track_rows(actions: Sequence[Action], state: TableState, version: int) -> tuple[Action, ...]:
    """The actions of a commit that is to be `version`, after a state, with fresh row ids for the files that have none.

    A file that is added again, as with another deletion vector, keeps its own. Raises CorruptTable for a file without a row count.
    """
    if not is_tracked(state):
        return tuple(actions)
    return tuple(_tracked(actions, high_water_mark(state), version))


def rebase_rows(mine: Commit, theirs: Commit, base: TableState, version: int) -> Commit:
    """The commit, which was decided on `base`, as it is to be after another one: now meant to be `version`, its fresh row ids above theirs."""
    if not is_tracked(base):
        return mine
    decided = high_water_mark(base)
    first = next((_mark(action) for action in theirs.actions if isinstance(action, DomainMetadata) and _is_mark(action)), None)
    # What was passed over before has raised ours already.
    mark = _first_id(mine, decided) - 1 if first is None else first
    fresh = (_forgotten(action, decided) for action in mine.actions if not _is_mark(action))
    return replace(mine, actions=tuple(_tracked(list(fresh), mark, version)))


def _first_id(commit: Commit, decided: int) -> int:
    ids = [file.base_row_id for file in commit.added if file.base_row_id is not None and file.base_row_id > decided]
    return min(ids, default=decided + 1)


def _is_mark(action: Action) -> bool:
    return isinstance(action, DomainMetadata) and action.domain == DOMAIN


def _forgotten(action: Action, decided: int) -> Action:
    if isinstance(action, AddFile) and action.base_row_id is not None and action.base_row_id > decided:
        return structs.replace(action, base_row_id=None, default_row_commit_version=None)
    return action


def _tracked(actions: Sequence[Action], mark: int, version: int) -> Iterator[Action]:
    highest = mark
    for action in actions:
        if not isinstance(action, AddFile) or action.base_row_id is not None:
            yield action
            continue
        rows = rows_of(action.stats)
        if rows is None:
            raise CorruptTable(
                f"the log does not say how many rows {action.path} has",
                why="Its rows need ids, as many as they are (the table has Row Tracking)",
                fix="Write the file anew with the tool that wrote it",
                path=action.path,
            )
        yield structs.replace(action, base_row_id=highest + 1, default_row_commit_version=version)
        highest += rows
    if highest > mark:
        yield DomainMetadata(domain=DOMAIN, configuration=json.dumps({"rowIdHighWaterMark": highest}, separators=(",", ":")))
