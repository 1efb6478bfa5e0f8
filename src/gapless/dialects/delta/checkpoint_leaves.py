"""Which leaf columns of a checkpoint's Parquet are read: most are of actions that no row has, and each costs its time. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def read_actions(file: pq.ParquetFile, unread: Mapping[str, Collection[str]]) -> pa.Table:
    """The actions that `unread` names, each without the fields that it has of it.

    Of a struct that no row has, as its statistics say, one leaf is read; where that has it nevertheless, they were wrong, and all is read.
    """
    wanted = _wanted(file.metadata.schema, unread)
    absent = _absent(file.metadata, wanted)
    spared = {at for leaves in absent.values() for at in leaves[1:]}
    paths = {at: file.metadata.schema.column(at).path for at in wanted}
    table = file.read(columns=[path for at, path in paths.items() if at not in spared], use_threads=False)
    if all(_lacks(table, struct) for struct in absent):
        return table
    return file.read(columns=list(paths.values()), use_threads=False)


def _wanted(schema: pq.ParquetSchema, unread: Mapping[str, Collection[str]]) -> list[int]:
    """The numbers of the leaves of these actions, but for those in a field that is not read."""
    wanted = []
    for at in range(len(schema)):
        action, field, *_ = f"{schema.column(at).path}.".split(".")
        if action in unread and field not in unread[action]:
            wanted.append(at)
    return wanted


def _absent(metadata: pq.FileMetaData, wanted: Sequence[int]) -> dict[str, list[int]]:
    """The actions, and fields of others, of which statistics say that no row has them: their leaves, first one that shows it."""
    structs: dict[str, list[int]] = {}
    for at in wanted:
        action, *fields = metadata.schema.column(at).path.split(".")
        for struct in (action, f"{action}.{fields[0]}")[: len(fields)] if fields else ():
            structs.setdefault(struct, []).append(at)
    null = _null_leaves(metadata, wanted)
    absent: dict[str, list[int]] = {}
    for struct, leaves in structs.items():
        # A list or map that is empty looks like one that is not there.
        shows = next((at for at in leaves if not metadata.schema.column(at).max_repetition_level), None)
        if shows is not None and null.issuperset(leaves) and struct.partition(".")[0] not in absent:
            absent[struct] = [shows, *(at for at in leaves if at != shows)]
    return absent


def _null_leaves(metadata: pq.FileMetaData, of: Sequence[int]) -> set[int]:
    """Those of the leaves with these numbers that have no value in any row group, as their statistics say."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return {at for at in of if all(_is_null(group.column(at)) for group in groups)}


def _is_null(chunk: pq.ColumnChunkMetaData) -> bool:
    told = chunk.statistics
    return bool(told is not None and told.has_null_count and told.null_count == chunk.num_values)


def _lacks(table: pa.Table, struct: str) -> bool:
    """Whether no row has an action, or a field of one; False where the table does not show it."""
    action, _, field = struct.partition(".")
    column = table.column(action)
    if field and column.type.get_field_index(field) < 0:
        return False
    found = pc.struct_field(column, [field]) if field else column
    return bool(found.null_count == len(found))
