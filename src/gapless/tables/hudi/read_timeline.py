"""The timeline of a Hudi table of any version and kind, as a reader of its changes follows it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gapless.errors import NotSupported, ObjectNotFound, TableNotFound
from gapless.formats.hudi.avro import decode_container
from gapless.formats.hudi.instants import TIMELINE_FOLDER, parse_completed, parse_pending, time_of
from gapless.formats.hudi.names import METADATA_FOLDER
from gapless.formats.hudi.properties import decode_properties
from gapless.formats.hudi.table_commits import TableCommit, decode_table_commit
from gapless.runtime.environment import Environment
from gapless.tables.hudi.timeline import PROPERTIES

_CHANGES = ("commit", "deltacommit", "replacecommit")
"""Actions that may add rows; compactions complete as commits, and clusterings as replacecommits."""
_OLD = re.compile(r"(\d{17})\.([a-z]+)", re.ASCII)
_LAYOUTS = {"6": METADATA_FOLDER, "8": TIMELINE_FOLDER, "9": TIMELINE_FOLDER}
"""By table version where the instants lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instants:
    """What a timeline says now."""

    completed: dict[int, str]
    """By requested time, as a number of 17 digits, the paths of changes, in order; none that comes after one which is not completed."""
    first_kept: int
    """As of this change, and later ones, the table can be read: files of before may be gone."""
    more: int
    """How many changes are completed that come after one which is not."""


@dataclass(slots=True)
class ReadTimeline:
    """Reads the timeline of one table."""

    env: Environment

    def properties(self) -> dict[str, str]:
        """Those of the table. Raises TableNotFound, NotSupported for a version that is not known, StoreError."""
        try:
            found = decode_properties(self.env.store.get(PROPERTIES))
        except ObjectNotFound as error:
            raise TableNotFound(
                f"there is no Hudi table at {self.env.store.url}",
                why=f"It has no {PROPERTIES}",
                fix="Check the path",
                path=self.env.store.url,
            ) from error
        version = found.get("hoodie.table.version", "")
        if version not in _LAYOUTS:
            raise NotSupported(
                f"the Hudi table at {self.env.store.url} has table version {version or 'none'}, which sources do not read",
                why=f"Known are {', '.join(_LAYOUTS)}",
                fix="Upgrade it by Hudi 1.2",
                feature=f"Hudi tables of version {version}",
            )
        return found

    def instants(self) -> Instants:
        """The instants of now. Raises as `properties`, CorruptTable."""
        folder = _LAYOUTS[self.properties()["hoodie.table.version"]]
        names = [info.path.removeprefix(f"{folder}/") for info in self.env.store.list(folder)]
        completed: dict[str, tuple[str, str]] = {}
        pending: set[str] = set()
        for name in names:
            if (one := parse_completed(name)) is not None:
                completed[one.requested] = one.action, f"{folder}/{name}"
            elif (match := _OLD.fullmatch(name)) is not None and match[2] != "inflight":
                completed[match[1]] = match[2], f"{folder}/{name}"
            elif (begun := parse_pending(name)) is not None and begun.action in _CHANGES:
                pending.add(begun.requested)
        open_ones = min(pending.difference(completed), default="9" * 17)
        changes = {int(at): path for at, (action, path) in sorted(completed.items()) if action in _CHANGES}
        cleans = [path for action, path in completed.values() if action == "clean"]
        kept = max((self._kept_by(path) for path in cleans), default=0)
        readable = {at: path for at, path in changes.items() if at < int(open_ones)}
        first = min((at for at in changes if at >= kept), default=kept)
        return Instants(completed=readable, first_kept=first, more=len(changes) - len(readable))

    def commit(self, path: str) -> TableCommit:
        """What an instant did. Raises ObjectNotFound where it was archived meanwhile, CorruptTable, StoreError."""
        return decode_table_commit(self.env.store.get(path), path)

    def _kept_by(self, path: str) -> int:
        """The earliest instant as of which a clean left all files."""
        (told,) = decode_container(self.env.store.get(path), path)
        earliest = told.get("earliestCommitToRetain") or "0"
        return int(earliest) if time_of(earliest) is not None else 0
