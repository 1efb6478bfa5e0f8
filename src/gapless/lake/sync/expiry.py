"""What a copy has that its newest snapshot took the place of: named by the head no more, then removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gapless.errors import InvalidOption, ObjectNotFound
from gapless.lake.compaction import remove_files
from gapless.lake.export.exports import FOLDERS
from gapless.lake.layout.head import TableHead
from gapless.lake.layout.manifest import Manifest
from gapless.lake.layout.snapshots import Snapshot
from gapless.lake.sync.plan import newest_chain
from gapless.lake.sync.side import Contents, Side
from gapless.model.instant import NS_PER
from gapless.runtime.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """Runs and snapshots whose rows the newest snapshot has."""

    documents: Mapping[str, Manifest | Snapshot]
    """By the path of the manifest."""

    def without(self, head: TableHead) -> TableHead:
        """What a head says once they are gone."""
        return replace(head, manifests={path: one for path, one in head.manifests.items() if path not in self.documents})

    def remove(self, env: Environment) -> int:
        """Remove them, a manifest before its files; how many there were. Raises StoreError."""
        for path, one in self.documents.items():
            env.store.delete(path)
            remove_files(env, one.folder, one.files)
        return len(self.documents)


NOTHING = Superseded(documents={})


def superseded(env: Environment, table: str, contents: Contents, expire_s: float | None, now_ns: int) -> Superseded:
    """What is to go of a table in a copy that will have `contents`: what its newest snapshot has, where that has lain here for `expire_s` seconds.

    What an expiry left that was broken off is found, too. Raises CorruptTable, StoreError.
    """
    chain = newest_chain(contents)
    if expire_s is None or not chain:
        return NOTHING
    newest = chain[-1]
    try:
        since_ns = env.store.head(newest.path).modified_ns
    except ObjectNotFound:
        return NOTHING  # it comes now
    if now_ns - since_ns < expire_s * NS_PER["s"]:
        return NOTHING
    there = Side(env=env).contents(table)
    covered = {(run.run, run.node) for one in chain for run in one.runs}
    read = {one.name for one in chain}
    runs = {path: one for path, one in there.manifests.items() if (one.run, one.node) in covered}
    older = {one.path: one for one in there.snapshots.values() if one.name < newest.name and one.name not in read}
    if any(next(iter(env.store.list(f"tables/{table}/{folder}")), None) is not None for folder in FOLDERS.values()):
        older = {}  # one of them may be exported: exports come along where a copy was made by other means
    return Superseded(documents={**runs, **older})


def check_expire(expire_s: object, *, copy: bool) -> float | None:
    """The age; raises InvalidOption for what is none, and where runs write into the lake that is copied to."""
    if expire_s is None:
        return None
    if not isinstance(expire_s, int | float) or isinstance(expire_s, bool) or not 0 <= expire_s < 2**32:
        raise InvalidOption(
            f"expire_s={expire_s!r} is no number of seconds", fix="Pass such as 86400", option="expire_s", value=expire_s
        )
    if not copy:
        raise InvalidOption(
            "expire_s= is for a replica, and runs write into this lake",
            why="It has its own expiry, which knows who reads it",
            fix="Leave it out, and use lake.table(…).expire()",
            option="expire_s",
            value=expire_s,
        )
    return float(expire_s)
