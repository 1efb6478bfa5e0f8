"""Committing changes of a Delta table's metadata and protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn

import pyarrow as pa

from gapless.errors import InvalidChange, InvalidQuery, SchemaMismatch
from gapless.formats.delta.actions import Action, Commit, DomainMetadata, Metadata, Protocol, TableState
from gapless.formats.delta.conflict import CommitPredicate, Reads
from gapless.formats.delta.features import (
    READER_FEATURES,
    READER_VERSION,
    WRITER_VERSION,
    check_writable,
    needed_features,
    needed_protocol,
    raised,
    supported_features,
)
from gapless.formats.delta.properties import MIN_READER, MIN_WRITER, Settings
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.formats.delta.schema.types import StructType
from gapless.log.format import Snapshot
from gapless.model.evolve import parse_path
from gapless.runtime.committer import Proposal
from gapless.tables.delta.care.compact import rewrite_files
from gapless.tables.delta.expressions.checks import Constraint, check_constraints
from gapless.tables.delta.expressions.evaluate import evaluate
from gapless.tables.delta.expressions.sql import columns_read
from gapless.tables.delta.files.open_file import Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.handle import DeltaContext
from gapless.tables.delta.published import files_to_rewrite
from gapless.tables.delta.write.commits import new_commit

Path = tuple[str, ...]
"""Logical names from the top down; `element`, `key` and `value` step into lists and maps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """What a table is, without its rows."""

    metadata: Metadata
    protocol: Protocol
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    """What features and users keep beside it, by name."""
    is_empty: bool = False
    """Whether it has no live file."""

    @classmethod
    def of(cls, state: TableState) -> TableDefinition:
        """That of a version."""
        return cls(metadata=state.metadata, protocol=state.protocol, domains=state.domains, is_empty=not state.files)

    @property
    def schema(self) -> StructType:
        """Its columns."""
        return self.metadata.schema

    @property
    def settings(self) -> Settings:
        """Its properties as values."""
        return Settings.of(self.metadata.configuration)

    @property
    def is_mapped(self) -> bool:
        """Whether files know its columns by physical names."""
        return self.settings.column_mapping != "none"

    def path(self, name: object) -> Path:
        """The path of a column that a caller means; raises InvalidOption."""
        return parse_path(name, to_arrow(self.schema))

    def with_schema(self, schema: StructType) -> TableDefinition:
        """The same with other columns, and the protocol that they need."""
        return self._with(replace(self.metadata, schema=schema))

    def with_properties(self, configuration: Mapping[str, str], wishes: Mapping[str, str] | None = None) -> TableDefinition:
        """The same with other properties, and the protocol that they and the `wishes` for features need."""
        return self._with(replace(self.metadata, configuration=dict(configuration)), wishes or {})

    def _with(self, metadata: Metadata, wishes: Mapping[str, str] | None = None) -> TableDefinition:
        wished = wishes or {}
        needed = needed_features(metadata.schema, {**metadata.configuration, **wished})
        protocol = self.protocol
        # Versions come first: what they stand for need not be listed then.
        if versions := {name: text for name, text in wished.items() if name in (MIN_READER, MIN_WRITER)}:
            protocol = _at_least(protocol, needed_protocol(StructType(fields=()), versions))
        return replace(self, metadata=metadata, protocol=raised(protocol, *sorted(needed)))


def _at_least(protocol: Protocol, wished: Protocol) -> Protocol:
    """The protocol in versions not below those that are wished for, with what these stand for."""
    protocol = raised(protocol, *sorted(supported_features(wished)))
    reader, writer = max(protocol.reader, wished.reader), max(protocol.writer, wished.writer)
    if (reader, writer) == (protocol.reader, protocol.writer):
        return protocol
    known = supported_features(protocol) if writer == WRITER_VERSION else frozenset[str]()
    for_readers = known & READER_FEATURES if reader == READER_VERSION else frozenset[str]()
    return Protocol(reader=reader, writer=writer, reader_features=for_readers, writer_features=known)


def refuse_change(path: Path, what: str, fix: str, why: str = "") -> NoReturn:
    """Raise InvalidChange for a column."""
    name = ".".join(path)
    raise InvalidChange(f"column {name!r} {what}", why=why, fix=fix, column=name)


Change = Callable[[TableState], TableDefinition]
"""What a version becomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCommitter:
    """Changes what a table is, from the newest version on."""

    context: DeltaContext
    check: Callable[[], None]
    """Raises UnsupportedTable where the handle may not write."""

    def change(self, operation: str, parameters: Mapping[str, object], change: Change, reads: Reads) -> int:
        """Commit a change; returns its version, the newest one's where it changes nothing. `operation` is Delta's name for it."""
        # What a column is, the newest version says, whichever the handle sees.
        newest = self.context.refresh()
        self.check()
        landed = self.context.committer.land(newest, partial(self._propose, operation, parameters, change, reads))
        return newest.version if landed is None else landed.version

    def rewrite(self, change: Change) -> None:
        """Write files anew that cannot be published, where a change asks for that."""
        newest = self.context.refresh()
        self.check()
        after = change(newest.state).metadata
        only = files_to_rewrite(self.context.env, newest.state, after.configuration)
        if only:
            rewrite_files(self.context, newest, only)

    def _propose(
        self,
        operation: str,
        parameters: Mapping[str, object],
        change: Change,
        reads: Reads,
        snapshot: Snapshot[TableState],
    ) -> Proposal[Commit] | None:
        """The commit that makes this change to a version; None where it changes nothing."""
        state, url = snapshot.state, self.context.store.url
        check_writable(state.protocol, url, state.metadata)
        before, after = TableDefinition.of(state), change(state)
        protocol: tuple[Action, ...] = () if after.protocol == before.protocol else (after.protocol,)
        metadata: tuple[Action, ...] = () if after.metadata == before.metadata else (after.metadata,)
        if not protocol and not metadata:
            return None
        check_writable(after.protocol, url, after.metadata)
        said = {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
        entry = new_commit(self.context.env, snapshot, operation, (*protocol, *metadata), parameters=said)
        entry = replace(entry, in_commit_time=after.settings.in_commit_timestamps)
        return Proposal(commit=entry, check_conflict=CommitPredicate(state=state, reads=reads).check_conflict)

    def new_name(self) -> str:
        """A name that no column of any version has in files."""
        return f"col-{self.context.env.ids.uuid()}"

    def check_rows(self, state: TableState, name: str, expression: str) -> None:
        """Raise InvalidValue for the first row of a version that breaks a constraint, in Spark's SQL; InvalidQuery, UnknownColumn
        where it is none.
        """
        schema = to_arrow(state.metadata.schema)
        _check_condition(expression, schema)
        constraint = Constraint(name=f"the constraint {name!r}", expression=expression, condition=expression)
        reader = FileReader.of(self.context.store, state.metadata)
        columns = columns_read(expression, schema, "spark") or tuple(schema.names[:1])
        first = 0
        for _, rows in reader.read(state.files.values(), Projection(columns=columns)):
            for batch in rows.to_batches():
                check_constraints(batch, (constraint,), first_row=first)
                first += batch.num_rows


def _check_condition(expression: str, schema: pa.Schema) -> None:
    """Raise InvalidQuery or UnknownColumn for what is no condition over these columns."""
    row = pa.table([pa.nulls(1, field.type) for field in schema], names=schema.names)
    try:
        evaluate(row, {"condition": expression}, pa.schema([("condition", pa.bool_())]), dialect="spark")
    except SchemaMismatch as error:
        raise InvalidQuery(
            f"{expression!r} is no condition",
            why="It is neither true nor false but another value",
            fix="Compare it with something",
            sql=expression,
        ) from error
