"""hudi-rs, by which tables of every version and kind are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gapless.errors import GaplessError, UnreadableInput
from gapless.tables.shared.library_errors import missing_library, said


@contextmanager
def hudi_errors(url: str) -> Iterator[None]:
    """Raise UnreadableInput for the library's errors, panics of its Rust code among them, which are no `Exception`."""
    try:
        yield
    except (GaplessError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise UnreadableInput(
            f"{url} cannot be read",
            why=f"hudi-rs says: {said(error)}",
            fix="Check that the table is whole; a table that hudi-rs does not read is written anew by Spark",
            source=url,
        ) from error


@dataclass(frozen=True, slots=True)
class LibraryTable:
    """A table as hudi-rs reads it."""

    location: str
    options: Mapping[str, str]

    def slices(self, instant: str) -> list[Any]:
        """Its file groups as of an instant, each a base file with its log files, in the order of their ids. Raises NotSupported without the
        library, UnreadableInput.
        """
        table, at = self._at(instant)
        with hudi_errors(self.location):
            return sorted(table.get_file_slices(at), key=lambda one: (one.partition_path, one.file_id))

    def rows(self, found: Any, instant: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a file group as of an instant, in these columns; those that its files lack are null. Raises UnreadableInput."""
        table, at = self._at(instant)
        with hudi_errors(self.location):
            reader = table.create_file_group_reader_with_options(at)
            for batch in reader.read_file_slice_stream(found, at):
                there = batch.schema.names
                arrays = [
                    batch.column(one.name).cast(one.type) if one.name in there else pa.nulls(batch.num_rows, one.type)
                    for one in schema
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _at(self, instant: str) -> tuple[Any, Any]:
        try:
            from hudi import HudiReadOptions, HudiTable
        except ImportError as error:
            raise missing_library("Hudi tables", "hudi", "hudi") from error
        with hudi_errors(self.location):
            return HudiTable(self.location, dict(self.options)), HudiReadOptions().with_as_of_timestamp(instant)
