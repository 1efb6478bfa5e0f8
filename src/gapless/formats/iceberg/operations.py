"""Operations of sinks, as an Iceberg table remembers them. Pure.

Each commit of a sink says in one step which checkpoint it is: in a property of the table, which outlives the expiry of snapshots, and in the
summary of its snapshot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gapless.errors import CorruptTable
from gapless.model.operation import OperationId, SequenceId, Tally, supersedes

PROPERTY = "gapless.txn."
"""Before the app: the property that keeps its highest checkpoint."""
APP, CHECKPOINT, KIND, GIVEN_UP = "gapless.app", "gapless.checkpoint", "gapless.change", "gapless.given-up"
"""In a summary: whose checkpoint it is, which, by what kind of change; or the prepared commit of which no finalization follows."""
_LONGEST = 180
"""Characters of an app that its property is called by, before it goes by a hash."""
_HASHED = "sha256:"
_ROWS, _SKIPPED = "gapless.rows", "gapless.skipped-rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A checkpoint that was committed; see `gapless.tables.shared.landing.AppliedOperation`."""

    operation: SequenceId
    kind: str
    """The mode of the sink."""
    version: int | None
    """The sequence number of its snapshot."""
    tally: Tally = field(default_factory=Tally)

    def tally_of(self, asked: OperationId) -> Tally:
        """What the operation asked for counted; nothing is known of a lower sequence."""
        return self.tally if self.operation == asked else Tally()

    @property
    def remembered(self) -> dict[str, str]:
        """The property of the table that remembers it."""
        body = {
            "checkpoint": self.operation.sequence,
            "change": self.kind,
            "version": self.version,
            "rows": self.tally.rows,
            "skipped_rows": self.tally.skipped_rows,
        }
        name, app = _property_of(self.operation.app), self.operation.app
        return {name: json.dumps(body if name == f"{PROPERTY}{app}" else {**body, "app": app})}

    @property
    def summary(self) -> dict[str, str]:
        """What its snapshot says of it."""
        return {
            APP: self.operation.app,
            CHECKPOINT: str(self.operation.sequence),
            KIND: self.kind,
            _ROWS: str(self.tally.rows),
            _SKIPPED: str(self.tally.skipped_rows),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The operations that a version of a table remembers."""

    properties: Mapping[str, str]
    snapshots: Iterable[tuple[int, Mapping[str, str]]]
    """Sequence number and summary of the snapshots that the version follows, itself first; read again each time."""

    def recognise(self, operation: OperationId) -> Applied | None:
        """The operation, or its app's higher sequence, if this or a later one was applied. Raises CorruptTable for a damaged property."""
        found = None if not isinstance(operation, SequenceId) else self.last(operation.app)
        return found if found is not None and supersedes(found.operation, operation) else None

    def last(self, app: str) -> Applied | None:
        """The highest checkpoint of an app: of the property, or of a snapshot where another writer took that away."""
        text = self.properties.get(_property_of(app))
        if text is not None:
            return _parse(app, text)
        told = (_of_summary(version, said) for version, said in self.snapshots if said.get(APP) == app and CHECKPOINT in said)
        return max(told, key=lambda one: one.operation.sequence, default=None)

    def all(self) -> list[Applied]:
        """The highest checkpoint of each app, as `last` has it."""
        named = (_app_of(name, text) for name, text in self.properties.items() if name.startswith(PROPERTY))
        told = (said[APP] for _, said in self.snapshots if APP in said and CHECKPOINT in said)
        found = (self.last(app) for app in dict.fromkeys((*named, *told)))
        return [one for one in found if one is not None]


def _property_of(app: str) -> str:
    """The name of an app's property. Some catalogs keep names of at most 255 characters."""
    return f"{PROPERTY}{app}" if len(app) <= _LONGEST else f"{PROPERTY}{_HASHED}{hashlib.sha256(app.encode()).hexdigest()}"


def _app_of(name: str, text: str) -> str:
    bare = name.removeprefix(PROPERTY)
    if not bare.startswith(_HASHED):
        return bare
    try:
        return str(json.loads(text)["app"])
    except (ValueError, TypeError, KeyError):
        return bare


def _parse(app: str, text: str) -> Applied:
    try:
        body = json.loads(text)
        if isinstance(body, int):
            return Applied(operation=SequenceId(app, body), kind="", version=None)
        tally = Tally(rows=int(body["rows"]), skipped_rows=int(body["skipped_rows"]))
        operation = SequenceId(app, int(body["checkpoint"]))
        return Applied(operation=operation, kind=str(body["change"]), version=int(body["version"]), tally=tally)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptTable(
            f"the property {PROPERTY}{app} of the Iceberg table says {text[:80]!r}, which is no checkpoint",
            why=f"Another writer altered it: {type(error).__name__}: {error}",
            fix="Bring it back from an older metadata file; without it nobody knows which checkpoints the table has",
            path="metadata",
        ) from error


def _of_summary(version: int, said: Mapping[str, str]) -> Applied:
    def number(key: str) -> int:
        text = said.get(key, "")
        return int(text) if text.isdigit() else 0

    tally = Tally(rows=number(_ROWS), skipped_rows=number(_SKIPPED))
    return Applied(operation=SequenceId(said[APP], number(CHECKPOINT)), kind=said.get(KIND, ""), version=version, tally=tally)
