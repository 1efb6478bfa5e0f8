"""Which leaf columns of a checkpoint's Parquet are read: few of them hold anything, and each costs its time. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow.parquet as pq

_TEXT = ("stats_parsed", "partitionValues_parsed")
"""Fields of `add` that are told again as a text, in which a column of nulls is one too."""


def wanted_leaves(metadata: pq.FileMetaData, unread: Mapping[str, Collection[str]]) -> list[str]:
    """The paths of the leaves to read: of the actions that `unread` names, all but those in the fields that it has of each, and those
    that are null in every row.

    Of each struct one leaf is read: it shows in which rows the struct is. An empty list or map has no value, and is not null: all are read.
    """
    empty, wanted = _null_leaves(metadata), []
    shown: set[str] = set()
    for at in range(metadata.num_columns):
        leaf = metadata.schema.column(at)
        (action, field, *_), struct = f"{leaf.path}.".split("."), leaf.path.rpartition(".")[0]
        if action not in unread or field in unread[action]:
            continue
        if at not in empty or leaf.max_repetition_level or field in _TEXT or struct not in shown:
            wanted.append(leaf.path)
            shown.add(struct)
    return wanted


def _null_leaves(metadata: pq.FileMetaData) -> frozenset[int]:
    """The numbers of the leaves that have no value in any row group, as their statistics say."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return frozenset(at for at in range(metadata.num_columns) if all(_is_null(group.column(at)) for group in groups))


def _is_null(chunk: pq.ColumnChunkMetaData) -> bool:
    told = chunk.statistics
    return bool(told is not None and told.has_null_count and told.null_count == chunk.num_values and not told.has_min_max)
