"""Batches of Spark appended to Iceberg tables, or put in the place of their rows: executors write the data files. Loads pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from gapless.connect.sinks.prepared_checks import check_table
from gapless.connect.sinks.staged_rows import prepared_of
from gapless.connect.sinks.table.iceberg_table import IcebergSinkTable
from gapless.errors import DataError
from gapless.files.ingest.batches import Batches
from gapless.files.write.staged_files import StagedFiles
from gapless.model.operation import SequenceId
from gapless.runtime.environment import Environment
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome, placed
from gapless.spark.writing.sink_target import SinkTarget
from gapless.tables.iceberg.data_files import FileFormatOf
from gapless.tables.iceberg.file_writer import DataFiles
from gapless.tables.iceberg.fitting import Fitter
from gapless.tables.iceberg.partitions import Partitions
from gapless.tables.iceberg.prepared import staged_files, told_file
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import PreparedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergOutcome(PartitionOutcome):
    """What became of one partition."""

    files: tuple[PreparedFile, ...] = ()
    told: tuple[Mapping[str, Any], ...] = ()
    """What manifests are to say of each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergEncoding(PartitionEncoder):
    """Writes the rows of one partition as data files, each with rows of one partition of the table."""

    fitter: Fitter
    format: FileFormatOf
    root: str
    """What metadata calls the table's root."""
    base: int
    target_bytes: int
    held_bytes: int
    """All three as in `DataFiles`."""

    def stored(self, part: Batches) -> IcebergOutcome:
        """See `PartitionEncoder.stored`."""
        form = self.format
        files = DataFiles(
            attempt=StagedFiles(Environment(store=self.store)),
            format=form,
            partitions=Partitions.of(form.spec, form.schema),
            location=partial(_location, self.root),
            base=self.base,
            target_bytes=self.target_bytes,
            held_bytes=self.held_bytes,
        )
        try:
            with files.attempt.discarded_on_error(), placed(part.source):
                row = 0
                for batch in part:
                    files.write([self.fitter.fit(batch, row)])
                    row += batch.num_rows
                files.close()
        except DataError as error:
            return IcebergOutcome(refusal=error)
        return IcebergOutcome(
            written=tuple(files.attempt.written),
            files=tuple(one.file for one in files.stored),
            told=tuple(told_file(form, one) for one in files.stored),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTarget(SinkTarget[IcebergSinkTable, IcebergEncoding, IcebergOutcome]):
    """An Iceberg table whose rows are added to, or give way."""

    def begin(self, given: pa.Schema, operation: SequenceId) -> IcebergEncoding:  # noqa: ARG002
        """See `SinkTarget.begin`: for the columns and partitions of now."""
        epoch, io = self.table.begin(given, self.change), self.table.table.io
        return IcebergEncoding(
            store=self.table.env.store,
            given=given,
            fitter=epoch.fitter,
            format=epoch.files.format,
            root=io.root,
            base=epoch.files.base,
            target_bytes=epoch.files.target_bytes,
            held_bytes=self.held_bytes,
        )

    def commit(self, operation: SequenceId, encoder: IcebergEncoding, outcomes: Sequence[IcebergOutcome]) -> ChangeOutcome:
        """See `SinkTarget.commit`. After an error all files stay, since a request under way may name them: the sweep takes what is not named."""
        table, form = self.table, encoder.format
        files = [file for one in outcomes for file in one.files]
        staged = staged_files(form, [told for one in outcomes for told in one.told])
        prepared = prepared_of(table, operation, self.change, files, staged, table.env.ids.uuid())
        with table.while_checked(partial(check_table, prepared, table)):
            outcome = table.append(prepared) if self.mode == "append" else table.overwrite(prepared)
        if outcome.already:
            held = table.held(prepared.data_files)
            self.discard(path for path in prepared.data_files if path not in held)
        return outcome


def _location(root: str, path: str) -> str:
    return f"{root}/{path}"
