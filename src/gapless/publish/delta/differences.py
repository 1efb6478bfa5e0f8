"""How a Delta description differs from the version of the table that it describes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.formats.delta.actions import AddFile, Metadata, Protocol
from gapless.formats.delta.actions import TableState as DeltaState
from gapless.formats.delta.file_path import canonical, log_path
from gapless.formats.delta.stats_codec import FileStats, StatsReader
from gapless.model.column_ids import ColumnIds
from gapless.model.stats import ColumnStats
from gapless.publish.delta.actions import own_part, published_metadata, published_protocol
from gapless.publish.source import Source, SourceFile


def found_differences(description: DeltaState, source: Source) -> list[str]:
    """Each in words that follow "it": files, columns, properties, partitions, protocol, sizes and statistics."""
    live = {canonical(log_path(file.path)): file for file in source.whole().added}
    found, columns = description.files, source.columns
    told = [f"it has {path}, which the table does not" for path in sorted(found.keys() - live.keys())]
    told += [f"it lacks {path}" for path in sorted(live.keys() - found.keys())]
    told += _of_metadata(
        published_metadata(columns, own_part(description.metadata, indexed=True), description.metadata.id), description.metadata
    )
    told += _of_protocol(description.protocol, published_protocol(description.metadata, None))
    reader = StatsReader(description.metadata.schema)
    for path, known in live.items():
        if (file := found.get(path)) is not None:
            told += (f"it says of {path} {what}" for what in _of_file(file, known, reader.parse(file.stats), columns.ids))
    return told


def _of_metadata(expected: Metadata, found: Metadata) -> Iterator[str]:
    if expected.schema != found.schema:
        yield "it has other columns"
    if found.partition_by:
        yield f"it is partitioned by {', '.join(found.partition_by)}"
    for name in sorted(expected.configuration.keys() | found.configuration.keys()):
        wanted, there = expected.configuration.get(name), found.configuration.get(name)
        if wanted != there:
            yield f"its property {name} is {there!r}, not {wanted!r}"


def _of_protocol(found: Protocol, expected: Protocol) -> Iterator[str]:
    if (found.reader, found.writer) != (expected.reader, expected.writer):
        yield f"its protocol is {found.reader}, {found.writer}, not {expected.reader}, {expected.writer}"
    have, need = found.reader_features | found.writer_features, expected.reader_features | expected.writer_features
    yield from (f"it asks for the feature {name}" for name in sorted(have - need))
    yield from (f"it does not ask for the feature {name}" for name in sorted(need - have))


def _of_file(file: AddFile, known: SourceFile, said: FileStats, ids: ColumnIds) -> Iterator[str]:
    if file.size != (known.size or 0):
        yield f"that it has {file.size} bytes, not {known.size}"
    if file.partition_values:
        yield f"that it lies in the partition {dict(file.partition_values)}"
    if file.deletion_vector is not None:
        yield "that rows of it are deleted"
    if said.rows != known.rows:
        yield f"that it has {said.rows} rows, not {known.rows}"
    for name, stats in ids.named(known.stats).items():
        if (told := said.columns.get((name,))) is not None:
            yield from (f"of column {name!r} {what}" for what in _of_column(told, stats))


def _of_column(told: ColumnStats, known: ColumnStats) -> Iterator[str]:
    """Bounds may be wider than they need to be, never narrower."""
    if None not in (told.nulls, known.nulls) and told.nulls != known.nulls:
        yield f"{told.nulls} nulls, not {known.nulls}"
    for what, tighter, wider in (("a smallest value", told.min, known.min), ("a largest value", known.max, told.max)):
        if tighter is not None and wider is not None and tighter > wider:  # type: ignore[operator]  # both are of the column's type
            yield f"{what} that rows go beyond"
