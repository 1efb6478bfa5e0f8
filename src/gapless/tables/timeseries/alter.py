"""Changing a table's columns and properties: the commits, each of which leaves every segment as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidChange
from gapless.formats.timeseries.actions import Action, SetTransaction, TableMeta, TableState, UpdateTableMeta
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.formats.timeseries.conflict.maintenance import PropertyChecker, check_alter
from gapless.log.format import Snapshot
from gapless.model import evolve
from gapless.model.column_ids import ColumnPath
from gapless.model.evolve import Columns, NewColumn, parse_metadata, parse_names, parse_path, parse_type
from gapless.model.operation import OperationId, Tally, parse_operation
from gapless.model.properties import Properties
from gapless.model.protocols import Store
from gapless.publish.publishers import check_files, check_publishable, unpublishable
from gapless.publish.source import SourceFile
from gapless.publish.sources.timeseries import check_partition, columns_of, file_of
from gapless.runtime.committer import Proposal
from gapless.tables.shared.landing import land_change
from gapless.tables.timeseries.care.compact import Compactor
from gapless.tables.timeseries.care.compact_plan import CompactOptions
from gapless.tables.timeseries.context import SeriesProposal, new_commit
from gapless.tables.timeseries.handle import Handle
from gapless.tables.timeseries.read.scan import ScanRequest
from gapless.tables.timeseries.write.append import check_writable
from gapless.tables.timeseries.write.refusals import refuse_duplicates

ColumnName = str | Sequence[str]
"""A column's name, a dotted path to a field nested in it ("address.city"), or the path as a tuple where names hold dots."""
Change = Callable[[Columns], Columns]
_WIDEN = "widen column"


class Evolution(Handle):
    """Changes of columns, by identity: each is one commit, costs no look at a segment, and never brings old values back.

    Nested fields go by dotted paths: through a struct by its field's name, through a list by "element", through a map by "value".
    Each method returns the version that holds the change: the table's own where nothing differs from what was asked.
    Another writer's append stands beside a change; a change of columns that came first has this one decided again.
    """

    def add_column(
        self,
        name: ColumnName,
        type: pa.DataType | str,  # noqa: A002  # what Arrow calls it
        *,
        default: object = None,
        after: str | None = None,
        comment: str | None = None,
    ) -> int:
        """Add a column that may be null, or a field to a struct; returns the new version.

        Args:
            name: The new column, which must not exist; a name that was dropped is a new column without the old values.
            type: Its Arrow type, or the short name of one, such as "int64".
            default: What rows have that were written without the column, those of before and those to come; a null that an input has
                stays null. One value, exactly of the type (a Python float is the nearest value of a narrower float).
            after: The column beside it that it follows; without it, it is the last.
            comment: What it is, kept as "comment" in the field's metadata.

        Readers of protocol 7 go on reading a table that grew by columns without a default and under new names. Raises
        InvalidChange, InvalidOption, UnknownColumn, UnsupportedType, UpgradeNeeded, CommitOutcomeUnknown, StoreError.
        """
        kind = parse_type(type)

        def change(columns: Columns) -> Columns:
            path = parse_path(name, columns.schema)
            new = NewColumn(path=path, type=kind, default=default, after=after, comment=comment)
            return evolve.add_column(columns, new)

        given = {"default": None if default is None else str(default), "after": after, "comment": comment}
        return self._alter("add column", {"column": _dotted(name), "type": str(kind), **given}, change)

    def widen_column(self, name: ColumnName, type: pa.DataType | str) -> int:  # noqa: A002
        """Give a column or nested field a type that holds every value it may hold, exactly; returns the new version.

        Integers and floats become wider ones (and integers floats where no value is rounded), decimals gain digits in front of the
        point, timestamps in s and ms a finer unit up to µs, times of day a finer unit. A column of unknown type takes any. Raises
        InvalidChange with what is allowed, UnknownColumn, UnsupportedType, UpgradeNeeded, CommitOutcomeUnknown, StoreError.
        """
        kind = parse_type(type)

        def change(columns: Columns) -> Columns:
            return evolve.widen_column(columns, parse_path(name, columns.schema), kind)

        return self._alter(_WIDEN, {"column": _dotted(name), "type": str(kind)}, change)

    def rename_column(self, name: ColumnName, new: str) -> int:
        """Give a column or nested field another name (`new` alone, not a path); returns the new version.

        Raises InvalidChange (the index or an entity column, a name that is taken), UnknownColumn, UpgradeNeeded,
        CommitOutcomeUnknown, StoreError.
        """

        def change(columns: Columns) -> Columns:
            return evolve.rename_column(columns, parse_path(name, columns.schema), new)

        return self._alter("rename column", {"column": _dotted(name), "new": new}, change)

    def drop_column(self, name: ColumnName) -> int:
        """Take a column or nested field away; older versions keep it. Returns the new version.

        Raises InvalidChange (the index or an entity column, the last field of a struct), UnknownColumn, UpgradeNeeded,
        CommitOutcomeUnknown, StoreError.
        """

        def change(columns: Columns) -> Columns:
            return evolve.drop_column(columns, parse_path(name, columns.schema))

        return self._alter("drop column", {"column": _dotted(name)}, change)

    def reorder_columns(self, names: Sequence[str], *, within: ColumnName | None = None) -> int:
        """Put these columns first, in this order; the others follow as they stood. Returns the new version.

        `within` names the struct whose fields are meant. Raises UnknownColumn, InvalidChange, InvalidOption (a name given twice),
        UpgradeNeeded, CommitOutcomeUnknown, StoreError.
        """
        given = parse_names(names)

        def change(columns: Columns) -> Columns:
            parent: ColumnPath = () if within is None else parse_path(within, columns.schema)
            return evolve.reorder_columns(columns, given, parent)

        return self._alter("reorder columns", {"column": within and _dotted(within), "names": list(given)}, change)

    def comment_column(self, name: ColumnName, comment: str | None) -> int:
        """Say what a column or nested field is, as "comment" in its metadata; None takes that away. Returns the new version.

        Raises UnknownColumn, InvalidOption, UpgradeNeeded, CommitOutcomeUnknown, StoreError.
        """

        def change(columns: Columns) -> Columns:
            return evolve.comment_column(columns, parse_path(name, columns.schema), comment)

        return self._alter("comment column", {"column": _dotted(name), "comment": comment}, change)

    def set_metadata(self, metadata: Mapping[str, str | None]) -> int:
        """Set keys of the schema's metadata; a value of None takes its key away. Returns the new version.

        Raises InvalidOption, UpgradeNeeded, CommitOutcomeUnknown, StoreError.
        """
        given = parse_metadata(metadata)
        return self._alter("set metadata", {"metadata": given}, lambda old: evolve.set_metadata(old, given))

    def _alter(self, said: str, details: Mapping[str, object], change: Change) -> int:
        shown = {"change": said, **{key: value for key, value in details.items() if value is not None}}
        # What a column is, the newest version says, whichever this handle sees.
        committer = self._committer
        landed = committer.land(committer.refresh(self._snapshot), partial(self._propose, shown, change))
        return self.version if landed is None else landed.version

    def _propose(self, shown: Mapping[str, object], change: Change, snapshot: Snapshot[TableState]) -> SeriesProposal | None:
        """The commit that makes this change to a version; None where it changes nothing."""
        meta = snapshot.state.meta
        check_writable(snapshot.state, self.url, upgrade=self._upgrade)
        columns = _columns_of(meta)
        changed = change(columns)
        if changed.same_as(columns):
            return None
        new = with_features(replace(meta, schema=changed.schema, ids=changed.ids))
        formats = meta.properties.publish
        check_publishable(formats, columns_of(new), columns_of(meta))
        check_partition(new)
        if shown["change"] == _WIDEN:
            # Files may hold a type from before the last widening, too.
            check_files(self._env.store, formats, columns_of(new), _files(snapshot.state))
        return Proposal(commit=new_commit(self._env, "alter", shown, [UpdateTableMeta(new)]), check_conflict=check_alter)


def _dotted(name: object) -> str:
    return ".".join(map(str, name)) if isinstance(name, Sequence) and not isinstance(name, str) else str(name)


def _columns_of(meta: TableMeta) -> Columns:
    if meta.schema is None:
        raise InvalidChange(
            "the table has no columns yet",
            why="They come with the first append, in the types of its input",
            fix="Append first, or create the table with schema=",
            column="",
        )
    return Columns(schema=meta.schema, ids=meta.ids, keys=(meta.index.column, *meta.index.entity))


class Settings(Handle):
    """A table's properties."""

    def set_properties(
        self,
        properties: Mapping[str, Any],
        *,
        rewrite: bool = False,
        operation_id: tuple[str, int] | str | None = None,
    ) -> int:
        """Change properties, those that `create` takes; None brings a default back. Returns the version that holds the change.

        One commit; the table's version where nothing differs. `unique=True` reads the keys of all rows first. `publish` looks into all
        files' footers first; with `rewrite` the segments that cannot be published as they are, since their rows lie in commits or in older
        types, are written again by commits before, as `compact` does. Raises InvalidOption, DuplicateKey where a table that shall be unique
        is not, NotSupported, UnsupportedType, InvalidChange or SchemaMismatch for a table that cannot be published, UpgradeNeeded,
        CommitConflict, CommitOutcomeUnknown, CorruptTable, StoreError.
        """
        operation = parse_operation(operation_id)
        committer = self._committer
        snapshot = committer.refresh(self._snapshot)
        self._check_writable()
        if rewrite:
            snapshot = self._rewrite(snapshot, properties)

        def propose(newest: Snapshot[TableState]) -> SeriesProposal | Tally:
            return self._proposal(newest.state, properties, operation)

        return land_change(committer, snapshot, propose, operation, "set_properties").version

    def _rewrite(self, snapshot: Snapshot[TableState], changes: Mapping[str, Any]) -> Snapshot[TableState]:
        """Write segments again that cannot be published, where these properties ask for that; the version after it."""
        meta = replace(snapshot.state.meta, properties=_changed(snapshot.state.meta.properties, changes))
        formats, columns = meta.properties.publish, columns_of(meta)
        check_publishable(formats, columns)
        if only := unpublishable(self._env.store, formats, columns, _files(snapshot.state)):
            Compactor(context=self._context, options=CompactOptions(only=only)).compact(snapshot)
        return self._committer.refresh(self._snapshot)

    def _proposal(self, state: TableState, changes: Mapping[str, Any], operation: OperationId | None) -> SeriesProposal | Tally:
        """The change as it should be made to this version; nothing to commit where that has it already."""
        old = state.meta.properties
        new = _changed(old, changes)
        actions: list[Action] = [] if new == old else [UpdateTableMeta(with_features(replace(state.meta, properties=new)))]
        if operation is not None:
            actions.append(SetTransaction(operation, Tally()))
        if not actions:
            return Tally()
        check_partition(replace(state.meta, properties=new))
        places, before = new.publishing.places(), old.publishing.places()
        becomes_published = bool(places) and places != before
        if becomes_published:
            columns = columns_of(state.meta)
            check_publishable(new.publish, columns)
            check_files(self._env.store, new.publish, columns, _files(state))
            changed = [name for name, place in places.items() if place != before.get(name)]
            self._publications.check_place(changed, new.publishing)
        becomes_unique = new.unique and not old.unique
        if becomes_unique:
            _check_unique(self._env.store, state)
        return Proposal(
            commit=new_commit(self._env, "set_properties", dict(changes), actions),
            check_conflict=PropertyChecker(
                checked_rows=becomes_unique, in_files=becomes_published, operation=operation
            ).check_conflict,
        )


def _files(state: TableState) -> Iterator[SourceFile]:
    """The live segments, as publishers need them."""
    return (file_of(segment, state.meta) for segment in state.segments)


def _changed(old: Properties, changes: Mapping[str, Any]) -> Properties:
    """The properties after changes, of which None brings a default back; raises InvalidOption."""
    merged = {**old.changed(), **changes}
    return Properties.parse({name: value for name, value in merged.items() if value is not None})


def _check_unique(store: Store, state: TableState) -> None:
    """Raise DuplicateKey where two rows have one identity and index value; holds the key columns of a stretch of rows at a time."""
    index, keys = state.meta.index, state.meta.index.keys
    if state.meta.schema is None:
        return
    known = pc.field(index.column).is_valid()  # other writers leave rows without an index value
    request = ScanRequest(start=None, end=None, where=known, entity={}, columns=keys, order="index")
    for stretch in _whole_instants(request.rows(store, state).to_batches(), index.column):
        counts = stretch.group_by(list(keys)).aggregate([([], "count_all")])
        repeated = counts.filter(pc.field("count_all") > 1)
        if repeated.num_rows:
            raise refuse_duplicates(
                repeated,
                keys,
                "in the table more than once",
                "A unique table holds no two rows with one identity and index value",
            )


def _whole_instants(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[pa.Table]:
    """Rows in index order, cut so that all rows of one index value come together."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        last = batch.column(column)[-1]
        if held and held[0].column(column)[0] != last:
            earlier = batch.filter(pc.not_equal(batch.column(column), last))
            yield pa.Table.from_batches([*held, earlier])
            held = [batch.slice(earlier.num_rows)]
        else:
            held.append(batch)
    if held:
        yield pa.Table.from_batches(held)
