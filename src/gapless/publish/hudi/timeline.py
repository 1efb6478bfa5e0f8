"""The timeline of a published Hudi table, as it lies in the store."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from gapless.errors import CorruptTable, ObjectNotFound
from gapless.formats.hudi.cleans import clean_name, encode_clean, is_clean
from gapless.formats.hudi.commits import HudiCommit, decode_commit, encode_commit
from gapless.formats.hudi.names import (
    GENESIS,
    METADATA_FOLDER,
    PARTITION_FILE,
    PROPERTIES_FILE,
    Action,
    Instant,
    is_foreign,
    parse_instant_name,
)
from gapless.formats.hudi.properties import decode_properties, encode_properties, foreign_changes, table_properties
from gapless.publish.hudi.listing import object_names
from gapless.publish.hudi.plan import BasePath, Carried, carried_of, foreign_commit, own_instant
from gapless.publish.hudi.trimming import Files, plan_tidying, unneeded_beginning
from gapless.runtime.conditional_puts import put_once
from gapless.runtime.environment import Environment

MOST_TRIMMED = 2_048
"""Instants that are looked at together."""
DESCRIPTION = "gapless.description"
"""The property that names a description, so that who knew it sees that it was begun anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A description as far as its newest commit."""

    id: str
    """Another one once it is begun anew."""
    instants: Mapping[str, Action]
    """All completed ones, in no order."""
    newest: str
    """The latest of them. Files with an instant of before the first can be seen as if it were completed."""
    commit: HudiCommit
    """What publishes the newest version; of several at one time, those that were put later count."""
    carried: Carried

    @property
    def first(self) -> str:
        """The earliest of them."""
        return min(self.instants)


@dataclass(frozen=True, slots=True)
class Begun:
    """What the publishers that begin a description agree on."""

    version: int
    """Of the table."""
    first: str
    """The first instant, by its digits. It hides what lies in the base path and is not live."""


class Timeline:
    """The timeline of one table."""

    def __init__(self, env: Environment, base: BasePath) -> None:
        """For the table that `env` reaches, with this base path."""
        self._env, self._base = env, base
        self.folder = base.path(METADATA_FOLDER)
        self._properties = f"{self.folder}/{PROPERTIES_FILE}"
        self._begun = f"{self.folder}/.aux/gapless.json"

    def path_of(self, instant: Instant) -> str:
        """Where it lies, relative to the table root."""
        return f"{self.folder}/{instant.name}"

    def get(self, instant: Instant) -> HudiCommit:
        """What it did. Raises CorruptTable, ObjectNotFound, StoreError."""
        path = self.path_of(instant)
        return decode_commit(self._env.store.get(path), path)

    def look(self, known: Described | None = None) -> Described | None:
        """The description as it is now; None where there is none. `known` is what it was before.

        Raises ForeignCommit where another writer changed it, CorruptTable, StoreError.
        """
        try:
            properties = decode_properties(self._env.store.get(self._properties))
        except ObjectNotFound:
            return None
        instants = self._instants()
        newest = max(instants, default=GENESIS)
        if changes := foreign_changes(properties):
            raise foreign_commit("; ".join(changes), newest)
        id_ = properties.get(DESCRIPTION, "")
        if known is not None and known.id != id_:
            known = None  # it was begun anew
        fresh = self._late(newest) if known is None else [Instant(*one) for one in instants.items() - known.instants.items()]
        best = None if known is None else (known.carried, known.commit)
        for one in sorted(fresh):
            commit = self.get(one)
            carried = carried_of(commit, one.digits, self.path_of(one))
            if best is None or carried.version >= best[0].version:
                best = carried, commit
        if best is None:
            raise foreign_commit("its commits are gone", GENESIS)
        return Described(id=id_, instants=instants, newest=newest, carried=best[0], commit=best[1])

    def instants(self) -> list[Instant]:
        """The completed instants in order, of a description that is begun, too. Raises ForeignCommit, StoreError."""
        return sorted(Instant(*one) for one in self._instants().items())

    def _instants(self) -> dict[str, Action]:
        found = {}
        for name in object_names(self._env.store, self.folder):
            if (instant := parse_instant_name(name)) is not None:
                found[instant.digits] = instant.action
            elif is_foreign(name):
                raise foreign_commit(f"it put {self.folder}/{name} there", name[:17] if name[:17].isdigit() else GENESIS)
        return found

    def _late(self, newest: str) -> list[Instant]:
        """The newest instant, and those that were put later: whoever publishes a version with an earlier instant puts it later."""
        times = {}
        for info in self._env.store.list(self.folder):
            if (instant := parse_instant_name(info.path.removeprefix(f"{self.folder}/"))) is not None:
                times[instant] = info.modified_ns
        since = next((ns for one, ns in times.items() if one.digits == newest), 0)
        return [one for one, ns in times.items() if ns >= since]

    def put(self, instant: Instant, commit: HudiCommit) -> HudiCommit:
        """Complete an instant, unless it is by now; what it did then. Raises CorruptTable, StoreError."""
        path = self.path_of(instant)
        found = self.put_once(path, encode_commit(commit, instant.action))
        return decode_commit(found, path)

    def tidy(self, now: Described, files: Files, earliest: int) -> Described:
        """Say as of which instants files may be missing, where versions below `earliest` are expired, and take away what no read asks for; the
        description then. Raises CorruptTable, StoreError.
        """
        told = {digits: Instant(digits, action) for digits, action in now.instants.items() if digits != now.first}
        commits = {digits: self.get(one) for digits, one in told.items()}
        versions = {digits: carried_of(one, digits, self.path_of(told[digits])).version for digits, one in commits.items()}
        commits.pop(now.newest, None)
        plan = plan_tidying(commits, versions, files, earliest)
        if plan.earliest is not None:
            self.clean(plan.earliest)
        return self._without(now, [digits for digits in plan.unused if versions[digits] < now.carried.version])

    def trim(self, now: Described, files: Files, limit: str) -> Described:
        """Take the oldest instants away as far as no read needs them, but for those from `limit` on; the description then. What readers see as of
        any instant stays the same, at each step. Raises CorruptTable, StoreError.
        """

        def is_needed(digits: str, there: Collection[str]) -> bool:
            one = Instant(digits, now.instants[digits])
            commit = self.get(one)
            newest = carried_of(commit, digits, self.path_of(one)).version >= now.carried.version
            return newest or not frozenset(there).isdisjoint(commit.replaced)

        return self._without(now, unneeded_beginning(sorted(now.instants)[:MOST_TRIMMED], files, limit, is_needed))

    def _without(self, now: Described, unneeded: Iterable[str]) -> Described:
        instants = dict(now.instants)
        for digits in unneeded:
            self._env.store.delete(self.path_of(Instant(digits, instants.pop(digits))))
        return replace(now, instants=instants)

    def clean(self, earliest: str) -> None:
        """Say that files may be missing as of instants before `earliest`: Hudi refuses to read as of them then. Raises StoreError."""
        mine = clean_name(own_instant(0, earliest))
        names = [info.path.removeprefix(f"{self.folder}/") for info in self._env.store.list(self.folder)]
        cleans = sorted(name for name in names if is_clean(name))
        if mine > max(cleans, default=""):
            self.put_once(f"{self.folder}/{mine}", encode_clean(mine[:17], earliest))
            for name in cleans:
                self._env.store.delete(f"{self.folder}/{name}")

    def put_once(self, path: str, data: bytes) -> bytes:
        """Store an object that no one changes, unless it is there; what is stored then. Raises StoreError."""
        fix = "Publish again once the store answers: what landed is found, and nothing is published twice"
        return put_once(self._env, path, data, fix)

    def begin(self, mine: Begun) -> Begun:
        """Begin a description, unless one is begun; how it is begun then. Raises CorruptTable, StoreError."""
        data = json.dumps({"version": mine.version, "first": mine.first}).encode()
        return _decode_begun(self.put_once(self._begun, data), self._begun)

    def begun(self) -> Begun | None:
        """How the description is begun; None where it is not. Raises CorruptTable, StoreError."""
        try:
            return _decode_begun(self._env.store.get(self._begun), self._begun)
        except ObjectNotFound:
            return None

    def complete(self, name: str) -> None:
        """Make a description that is begun one that readers find, as a table of this name. Raises StoreError."""
        partition = f"commitTime={GENESIS}\npartitionDepth=0\n"
        self.put_once(self._base.path(PARTITION_FILE), partition.encode())
        self.put_once(self._properties, encode_properties(table_properties(name) | {DESCRIPTION: self._env.ids.uuid()}))

    def clear(self) -> None:
        """Take the description away. Readers find no table from the first step on. Raises StoreError."""
        store = self._env.store
        for path in (self._properties, self._begun):
            store.delete(path)
        for path in [info.path for info in store.list(self.folder)]:
            store.delete(path)


def _decode_begun(data: bytes, path: str) -> Begun:
    try:
        told = json.loads(data)
        return Begun(version=int(told["version"]), first=str(told["first"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(
            f"{path} does not say how the Hudi table begins",
            why=f"It does not read as that: {error!r}",
            fix="`gapless repair` begins the description of the table anew",
            path=path,
        ) from error
