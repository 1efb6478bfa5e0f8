"""Publishing a time-series table as Hudi: an instant of `data/.hoodie/` for each version, of the same files."""

from __future__ import annotations

from gapless.errors import (
    CorruptTable,
    ForeignCommit,
    NotSupported,
    SchemaMismatch,
    StoreUnavailable,
    UnsupportedType,
)
from gapless.formats.hudi.commits import HudiCommit
from gapless.formats.hudi.names import GENESIS, Instant, instant_in
from gapless.formats.hudi.schema import still_wide
from gapless.formats.timeseries.actions import DATA_FOLDER
from gapless.model.protocols import WRITER_HORIZON_NS
from gapless.model.publishing import PublishedFormat, PublishSettings
from gapless.publish.hudi import columns
from gapless.publish.hudi.beginning import Beginning, schema_of
from gapless.publish.hudi.links import link
from gapless.publish.hudi.listing import data_file_names
from gapless.publish.hudi.plan import (
    BasePath,
    base_name,
    carried_of,
    copy_name,
    file_id,
    instant_of,
    is_copy_name,
    own_instant,
    published_commit,
    without_strays,
)
from gapless.publish.hudi.strays import LOOK_EVERY, can_be_seen, may_have_strays, strays_of
from gapless.publish.hudi.timeline import Described, Timeline
from gapless.publish.hudi.trimming import Files
from gapless.publish.source import Source, SourceChange, SourceColumns
from gapless.publish.stored_types import check_change
from gapless.runtime.environment import Environment


def publisher(env: Environment, settings: PublishSettings) -> HudiPublisher:
    """The publisher of the table that `env` reaches."""
    return HudiPublisher(env, settings.hudi_folder)


check_columns = columns.check_columns
check_stored = columns.check_stored


class HudiPublisher:
    """Keeps the Hudi timeline of one table. The timeline is the publisher's only memory: its commits say which versions they describe.

    Readers of Hudi list the base path, and take a file for visible once the instant in its name is completed and no commit has taken its
    file id away. So a version is published by completing the instant that its segments carry; where they carry none of their own,
    copies of them are published under an instant of the publisher's.
    """

    format: PublishedFormat = "hudi"

    def __init__(self, env: Environment, folder: str = DATA_FOLDER) -> None:
        """For the table that `env` reaches, with a base path relative to its root."""
        self._env, self._base = env, BasePath(folder)
        self._timeline = Timeline(env, self._base)
        self._beginning = Beginning(env, self._base, self._timeline, self._copy)
        self.folder = self._timeline.folder
        self._known: Described | None = None
        self._seen: frozenset[str] = frozenset()
        """Names in the base path that were looked at: no stray, or hidden by now."""

    def published(self) -> tuple[int, int] | None:
        """The version of the table that is published, and the newest instant of the Hudi table as a number; None where nothing is.

        Raises ForeignCommit where another writer changed it, CorruptTable, StoreError.
        """
        now = self._look()
        return None if now is None else (now.carried.version, int(now.newest))

    def differences(self, source: Source) -> list[str]:
        """See `Publisher.differences`. What readers see is found as they find it, by listing."""
        now = self._look()
        if now is None:
            return []
        hidden = {one for name in now.instants.items() for one in self._timeline.get(Instant(*name)).replaced}
        visible = {name for name in self._files() if can_be_seen(name, now) and file_id(name) not in hidden}
        live = {now.carried.copies.get(one.path) or self._base.own_name(one.path) or one.path for one in source.whole().added}
        told = [f"it shows {name}, which the table does not have" for name in sorted(visible - live)]
        told += [f"it lacks {name}" for name in sorted(live - visible)]
        return told if _schema_after(now, source.columns) == now.commit.schema else [*told, "it has other columns"]

    def publish(self, source: Source, *, mend: bool = False) -> int:
        """See `Publisher.publish`: each version as an instant of its own. Several may do so at once, and each version is published once.

        Where commits are cleaned away that were not published, or with `mend`, where another writer changed the description, it is begun
        anew: then readers find no table for a moment, and no older instant after it.
        """
        try:
            now = self._look()
        except Exception as error:
            if not mend or not _is_mended(error):
                raise
            now = self._beginning.begin_anew(source)
        if now is None and source.columns.schema is None:
            return -1  # no columns to describe yet
        now = now or self._beginning.begin(source)
        while now.carried.version < source.version:
            changes = source.changes_after(now.carried.version, self.format)
            if changes is None:
                now = self._beginning.begin_anew(source)
                continue
            for change in changes:
                try:
                    now = self._follow(now, change, source)
                except (NotSupported, UnsupportedType, SchemaMismatch):
                    # A version of before that Hudi cannot describe; the newest one may be another matter.
                    if change.version == source.version:
                        raise
                    now = self._beginning.begin_anew(source)
                    break
        self._known = now
        return int(now.newest)

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _look(self) -> Described | None:
        self._known = self._timeline.look(self._known)
        return self._known

    def _files(self) -> list[str]:
        return data_file_names(self._env.store, self._base.folder)

    def _follow(self, now: Described, change: SourceChange, source: Source) -> Described:
        """Publish one change, unless it is by now; `source` is the newest version."""
        check_change(self._env.store, change, columns.check_stored)
        _check_again(change.columns)
        instant, done = self._own_instant(now, change)
        if done is not None:
            return done
        if instant is None:
            instant = own_instant(change.time_ns, now.newest)
            paths = [one.path for one in change.added]
            names = {path: copy_name(path, number, instant) for number, path in enumerate(paths)}
            for path, name in names.items():
                self._copy(path, name)
        else:
            names = {one.path: base_name(one.path) for one in change.added}
        # Where there are copies alone, nobody else puts files there.
        listed = bool(change.added) and not self._base.has_copies_alone
        before, strays, files = now.carried, [], []
        if listed and may_have_strays(self._env.store, change, instant, now):
            files = self._files()
            before = without_strays(before, files)
            found = strays_of(files, self._seen, names.values(), instant, now, source)
            strays = [file_id(name) for name in sorted(found) if not self._was_told(name, now)]
        earliest = min([change.earliest, *source.kept])  # tagged versions are kept
        schema = _schema_after(now, change.columns)
        commit, unused = published_commit(change, before, names, schema, base=self._base, strays=strays, earliest=earliest)
        for name in unused:
            self._env.store.delete(self._base.path(name))
        if change.operation == "vacuum" or change.version % LOOK_EVERY == 0:
            now = self._with_less(now, change, files or self._files(), change.earliest)
        completed = Instant(instant, commit.action)
        after = self._adopted(now, completed, self._timeline.put(completed, commit), change)
        self._seen = frozenset(files) or self._seen
        return after

    def _with_less(self, now: Described, change: SourceChange, names: list[str], earliest: int) -> Described:
        """The description without the instants that no reader needs, as of when this change is published; `names` are those in the base path."""
        limit = own_instant(max(0, change.time_ns - WRITER_HORIZON_NS), GENESIS)
        fresh = [name for name in names if now.first <= instant_in(name) < limit and instant_in(name) not in now.instants]
        unused = {name for name in fresh if is_copy_name(name)}
        for name in unused:  # of a publisher that was killed
            self._env.store.delete(self._base.path(name))
        files = Files.of(name for name in names if name not in unused)
        if change.operation == "vacuum":
            # Before files go, and after those of the vacuum before went.
            now = self._timeline.tidy(now, files, earliest)
        return self._timeline.trim(now, files, limit)

    def _was_told(self, name: str, now: Described) -> bool:
        """Whether the commit of the instant in a file's name names it, or an earlier one hid it: the table's log has forgotten it since."""
        instant = instant_in(name)
        asked = (
            (now.first, instant) if instant in now.instants else now.instants
        )  # who hid one of before the first is not known
        told = (self._timeline.get(Instant(one, now.instants[one])) for one in asked)
        return any(file_id(name) in commit.replaced or any(name == one.name for one in commit.added) for commit in told)

    def _own_instant(self, now: Described, change: SourceChange) -> tuple[str | None, Described | None]:
        """The instant that the files of a change carry, where they can be published under it; and where they are by now, the description."""
        instant = instant_of(change.added, self._base) if change.added else None
        # Readers never show a file id again that was taken away.
        hidden = change.operation == "restore" or any(
            file_id(own) in now.carried.strays for one in change.added if (own := self._base.own_name(one.path)) is not None
        )
        if instant is None or hidden or instant < now.first:
            return None, None
        if (action := now.instants.get(instant)) is None:
            return instant, None
        # Two attempts began in one millisecond, or another publisher was quicker.
        completed = Instant(instant, action)
        commit = self._timeline.get(completed)
        is_ours = carried_of(commit, instant, self._timeline.path_of(completed)).version == change.version
        return None, self._adopted(now, completed, commit, change) if is_ours else None

    def _adopted(self, now: Described, instant: Instant, commit: HudiCommit, change: SourceChange) -> Described:
        """The description with an instant more."""
        carried = carried_of(commit, instant.digits, self._timeline.path_of(instant))
        if carried.version != change.version:
            raise StoreUnavailable(
                f"instant {instant.digits} of the Hudi table publishes version {carried.version}, and was to publish {change.version}",
                why="Another publisher completed it a moment ago, for files of the same millisecond",
                fix="Publish again",
                path=self._timeline.path_of(instant),
            )
        return Described(
            id=now.id,
            instants={**now.instants, instant.digits: instant.action},
            newest=max(now.newest, instant.digits),
            commit=commit,
            carried=carried,
        )

    def _copy(self, path: str, name: str) -> None:
        """Store a file under another name, once: as another link to it where it lies on a disk of this machine."""
        if not (self._base.has_copies_alone and link(self._env.store, path, self._base.path(name))):
            self._timeline.put_once(self._base.path(name), self._env.store.get(path))


def _schema_after(now: Described, columns: SourceColumns) -> str:
    """The Avro schema of a description that goes on with these columns."""
    return now.commit.schema if columns.schema is None else still_wide(now.commit.schema, schema_of(columns))


def _check_again(described: SourceColumns) -> None:
    """Raise for columns that came by a writer that did not know of the publication."""
    check_columns(described, None)


def _is_mended(error: BaseException) -> bool:
    """Whether a description that begins anew does not have what the old one suffers from."""
    return isinstance(error, ForeignCommit | CorruptTable)
