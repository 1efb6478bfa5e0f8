"""Appending to a Delta table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gapless.files.adopt.copy_or_link import Adopt, parse_adopt
from gapless.files.adopt.source import Source
from gapless.files.ingest.batches import Batches, Progress, watched, without_empty
from gapless.files.ingest.files import FileArgument, expand_paths, open_files
from gapless.formats.delta.actions import Commit, Json, TableState
from gapless.formats.delta.conflict import CommitPredicate
from gapless.log.format import Snapshot
from gapless.model.operation import AppendReport, OperationArgument, OperationId, Tally, parse_operation
from gapless.runtime.committer import Proposal
from gapless.runtime.environment import Environment
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.write.adopt import KIND, Adopter
from gapless.tables.delta.write.commits import new_commit
from gapless.tables.delta.write.landing import RowCommitter, StagedRows
from gapless.tables.delta.write.merge_schema import SchemaMode, parse_schema_mode
from gapless.tables.shared.inputs.parquet_files import open_sources
from gapless.tables.shared.inputs.rows import ReadParts, parts_of
from gapless.tables.shared.landing import skip_applied


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Proposes appends."""

    env: Environment
    operation: OperationId | None

    def propose(self, snapshot: Snapshot[TableState], fresh: StagedRows) -> Proposal[Commit] | Tally:
        """Fresh rows as further rows of a version; nothing counted where there is nothing to say."""
        actions = (*fresh.evolved.actions, *fresh.files)
        if not actions and self.operation is None:
            return Tally()
        commit = new_commit(
            self.env,
            snapshot,
            "WRITE",
            actions,
            parameters=write_parameters("Append", snapshot.state),
            tally=fresh.tally,
            operation_id=self.operation,
            blind_append=True,
        )
        check_conflict = CommitPredicate(state=snapshot.state).check_conflict
        return Proposal(commit=commit, check_conflict=check_conflict, tally=fresh.tally, deferred=tuple(fresh.attempt.deferred))


def write_parameters(mode: str, state: TableState) -> Mapping[str, Json]:
    """What the log says of a WRITE, as Delta does."""
    return {"mode": mode, "partitionBy": json.dumps(list(state.metadata.partition_by))}


class Appending(DeltaHandle):
    """`append` and `append_file`."""

    def append(
        self, data: object, *, operation_id: OperationArgument = None, schema_mode: SchemaMode = "strict"
    ) -> AppendReport:
        """Append rows as one commit: all of them, or none.

        Args:
            data: Anything with `__arrow_c_stream__` (Arrow table or reader, Polars frame, DuckDB relation), a pandas DataFrame, a record batch, a
                mapping of columns, or an iterable of row mappings. Columns are matched by name (exactly, else without regard to case); what
                the input lacks is generated, takes the column's default, or is null.
            operation_id: What this change is called, so that sending it again changes nothing. A stream takes ("app", sequence), with
                sequences that only grow: the highest is remembered for ever. Jobs that run in any order take one text each. Sent again, from
                anywhere, the first report comes back with `already_applied`, and `data` is not read.
            schema_mode: "strict" refuses columns that the table lacks; "merge" adds them, nullable, and widens types where the table's
                property `delta.enableTypeWidening` is true.

        An append steps over commits that came first, and is decided again where one changed the table's columns or rules. Memory stays
        within about three times 256 MiB beside the input's own batches. Raises SchemaMismatch, InvalidValue (a value that a column does not
        hold; a row that breaks a constraint) and the other DataErrors, InvalidOption, UnsupportedTable, CommitConflict,
        CommitOutcomeUnknown, StoreError.
        """
        return self._append(partial(parts_of, data, self.schema), operation_id, schema_mode)

    def append_file(
        self,
        path: FileArgument,
        *,
        format: object = None,  # noqa: A002  # what users of DuckDB and Polars call it
        operation_id: OperationArgument = None,
        schema_mode: SchemaMode = "strict",
        progress: Progress | None = None,
        adopt: Adopt | None = None,
    ) -> AppendReport:
        """Append a file, all data files of a directory, all that a glob matches, or a list of these, as one commit.

        An open file of bytes, a pipe, and `-` (standard input) are read once, by way of a temporary file; `format` says what they hold.
        `format` is a `gl.Csv(…)`, `gl.Json(…)`, "parquet", "csv" or "json"; without it the suffix decides. `progress` is called after
        each batch with the rows read so far, and with all rows there are where that is known (else None). See `append` for the rest;
        raises InvalidPath for a path that names nothing, or a file named twice, and UnreadableInput where a file cannot be read.

        `adopt` takes Parquet files as they are, whose rows are not read: "copy" copies them, "link" gives them a second name (on the table's
        disk; who then writes into the file damages the table), "move" takes them away once the commit has landed. A file whose columns do
        not lie as the table's files hold them is refused with SchemaMismatch, and so is one in no folder `column=value` for each partition
        column. A table whose rules are to hold for each row takes none (NotSupported).
        """
        if adopt is not None:
            how = parse_adopt(adopt)
            return self._adopt(lambda: open_sources(expand_paths(path), format, how), how, operation_id, schema_mode, progress)

        def read() -> Sequence[Batches]:
            parts = without_empty(open_files(expand_paths(path), format, index=None, schema=self.schema))
            return parts if progress is None else watched(parts, progress)

        return self._append(read, operation_id, schema_mode)

    def _adopt(
        self,
        sources: Callable[[], Sequence[Source]],
        how: Adopt,
        operation_id: object,
        schema_mode: object,
        progress: Progress | None,
    ) -> AppendReport:
        mode, operation = parse_schema_mode(schema_mode, ("strict", "merge")), parse_operation(operation_id)
        context = self._context
        newest = context.refresh()
        self._check_writable()
        adopter = Adopter(
            committer=context.committer,
            propose=Append(env=self._env, operation=operation).propose,
            how=how,
            mode=mode,
            operation=operation,
            progress=progress,
        )
        known = skip_applied(context.committer, newest, operation, KIND)
        return self._with_publications((known or adopter.adopt(newest, sources())).append_report)

    def _append(self, read: ReadParts, operation_id: object, schema_mode: object) -> AppendReport:
        mode = parse_schema_mode(schema_mode, ("strict", "merge"))
        operation = parse_operation(operation_id)
        committer = RowCommitter(
            committer=self._committer,
            propose=Append(env=self._env, operation=operation).propose,
            kind=KIND,
            check_writable=self._check_writable,
            mode=mode,
            operation=operation,
        )
        return self._with_publications(committer.land(self._snapshot, read).append_report)
