"""What a sink refuses of a prepared commit: another's, one of another table, one whose number has other rows in the table."""

from __future__ import annotations

import warnings

from gapless.connect.identity import SinkIdentity
from gapless.connect.sinks.change import MODES, acts
from gapless.connect.sinks.opened_table import SinkTable
from gapless.errors import InvalidOption, LogWarning, OperationReused, PreparedFilesMissing, UnsupportedTable, VersionNotFound
from gapless.model.operation import operation_argument
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit


def check_mine(prepared: object, identity: SinkIdentity) -> None:
    """Raise InvalidOption for what is no prepared commit of this sink, UnsupportedTable for one of a newer release."""
    if not isinstance(prepared, PreparedCommit):
        raise InvalidOption(
            f"a {type(prepared).__name__} is no prepared commit",
            why="It is what prepare gave",
            fix="Read a stored one with PreparedCommit.from_json",
            option="prepared",
            value=prepared,
        )
    if prepared.change.get("mode") not in MODES:
        raise UnsupportedTable(
            f"the prepared commit is to make a change {prepared.change.get('mode')!r}, which this release does not know",
            why="A newer one prepared it",
            fix="Finalize or abort it with that release",
            needs=f"mode {prepared.change.get('mode')!r}",
        )
    app = prepared.operation.app
    if app != identity.app:
        generation = app.removeprefix(f"{identity.pipeline}/{identity.sink}#")
        raise InvalidOption(
            f"the prepared commit is one of {app}, and this sink is {identity.app}",
            why="Each sink finalizes and aborts its own checkpoints"
            if generation == app
            else "Another generation begins anew from nothing, with an empty checkpoint store",
            fix="Make the sink with the pipeline, name and generation that prepared it"
            if generation == app
            else f"Go on with generation={generation}, or give the pipeline an empty checkpoint store: all rows come again",
            option="prepared",
            value=prepared.path,
        )


def check_table(prepared: PreparedCommit, table: SinkTable) -> None:
    """Raise VersionNotFound where another table lies in the place."""
    if prepared.table_id != table.table_id:
        raise VersionNotFound(
            f"the table at {table.env.store.url} is not the one that checkpoint {prepared.checkpoint_id} was prepared for",
            why="That was removed, and another one made in its place",
            fix="Abort the prepared commit, and start the pipeline anew with a higher generation and an empty checkpoint store",
            version=table.version,
        )


def check_not_aborted(prepared: PreparedCommit, table: SinkTable) -> None:
    """Raise PreparedFilesMissing for one that was aborted before a later checkpoint was committed, which alone the log remembers; as far
    back as the log's commits go.
    """
    last = table.last(prepared.operation)
    if last is not None and last > prepared.checkpoint_id and table.was_given_up(prepared):
        raise PreparedFilesMissing(
            f"checkpoint {prepared.checkpoint_id} of {prepared.operation.app} cannot be finalized: it was aborted",
            why=f"The log says so; checkpoint {last} was committed after that",
            fix=f"Send its rows again from the source, as checkpoint {last + 1} or later",
            paths=prepared.needs,
            checkpoint_id=prepared.checkpoint_id,
        )


def check_same_rows(prepared: PreparedCommit, known: ChangeOutcome) -> None:
    """Raise OperationReused where the log says that an append of another number of rows was committed under the number.

    Other changes of rows write fewer than came, and a later checkpoint hides what an earlier one counted: of these nothing can be told.
    """
    rows, counted = prepared.records_written, known.tally.rows + known.tally.skipped_rows
    if prepared.change["mode"] == "append" and acts(prepared) and counted not in (0, rows):
        raise OperationReused(
            f"checkpoint {prepared.checkpoint_id} of {prepared.operation.app} was committed with {counted} rows,"
            f" and was prepared again with {rows}",
            why=f"Version {known.version} has it; a number stands for its rows for ever, so these would never come into the table",
            fix="Prepare them under a higher number than last_committed() gives",
            operation_id=operation_argument(prepared.operation),
            applied=f"append of {counted} rows",
            asked=f"append of {rows} rows",
            version=known.version,
        )


def check_files_are_new(prepared: PreparedCommit, table: SinkTable) -> None:
    """Raise OperationReused where the table has files of a checkpoint that its log does not know: they came with the document of an earlier try,
    which had another number and fewer rows.
    """
    held = table.held(prepared.data_files)
    if held:
        rows = sum(file.rows for file in prepared.files if file.path in held)
        raise OperationReused(
            f"{rows} of the {prepared.records_written} rows of checkpoint {prepared.checkpoint_id} of {prepared.operation.app} are in the table"
            " already, under another number",
            why="Their prepare failed and was made again under this number, and the document of the first try was finalized; nothing was committed",
            fix="Abort this one, and send the rows that the table lacks again from the source",
            operation_id=operation_argument(prepared.operation),
            applied=f"append of {rows} rows",
            asked=f"append of {prepared.records_written} rows",
            version=table.version,
        )


def tell_known(prepared: PreparedCommit, table: SinkTable) -> None:
    """Warn of rows that are prepared under a number which the table has, or has passed: `finalize` will leave them out.

    Raises OperationReused where they are certainly others.
    """
    known = table.known(prepared.operation, prepared.change["mode"])
    if known is None:
        return
    check_same_rows(prepared, known)
    last = table.last(prepared.operation)
    warnings.warn(
        f"checkpoint {prepared.checkpoint_id} of {prepared.operation.app} is not new to the table, whose last one is {last}: finalize will"
        f" leave its {prepared.records_written} rows out. Where they are not those that were committed as it, prepare them as"
        f" {last_plus(last)} or more",
        LogWarning,
        stacklevel=3,
    )


def last_plus(last: int | None) -> int:
    """The next number."""
    return 0 if last is None else last + 1
