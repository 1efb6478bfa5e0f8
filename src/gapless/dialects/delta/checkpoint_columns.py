"""File actions as Arrow columns of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from gapless.dialects.delta.action_codec import encode_vector
from gapless.dialects.delta.actions import AddFile, DeletionVector, Metadata, RemoveFile
from gapless.dialects.delta.checkpoint_parsed import parsed_stats, parsed_values
from gapless.dialects.delta.checkpoint_schema import TEXTS, VECTOR
from gapless.dialects.delta.properties import Settings

Files = Sequence[AddFile] | Sequence[RemoveFile]


def add_column(files: Sequence[AddFile], metadata: Metadata) -> pa.StructArray:
    """`add`: statistics as text, as columns or both, as the table's properties ask."""
    settings = Settings.of(metadata.configuration)
    columns = _places(files) | {
        "size": pa.array([file.size for file in files], pa.int64()),
        "modificationTime": pa.array([file.modified_ms for file in files], pa.int64()),
        "dataChange": pa.repeat(pa.scalar(False), len(files)),
        "tags": _texts([file.tags for file in files]),
        "clusteringProvider": pa.array([file.clustering_provider for file in files], pa.string()),
    }
    if settings.stats_as_json:
        columns["stats"] = pa.array([file.stats for file in files], pa.string())
    if settings.stats_as_struct:
        columns["stats_parsed"] = parsed_stats(files, metadata)
        if metadata.partition_by:
            columns["partitionValues_parsed"] = parsed_values(files, metadata)
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def remove_column(files: Sequence[RemoveFile]) -> pa.StructArray:
    """`remove`."""
    full = [file.partition_values is not None and file.size is not None for file in files]
    columns = _places(files) | {
        "deletionTimestamp": pa.array([file.deleted_ms for file in files], pa.int64()),
        "dataChange": pa.repeat(pa.scalar(False), len(files)),
        "extendedFileMetadata": pa.array(full, pa.bool_()),
        "size": pa.array([file.size for file in files], pa.int64()),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _places(files: Files) -> dict[str, pa.Array]:
    """What both have."""
    return {
        "path": pa.array([file.path for file in files], pa.string()),
        "partitionValues": _texts([file.partition_values for file in files]),
        "deletionVector": pa.array([_vector(file.deletion_vector) for file in files], VECTOR),
        "baseRowId": pa.array([file.base_row_id for file in files], pa.int64()),
        "defaultRowCommitVersion": pa.array([file.default_row_commit_version for file in files], pa.int64()),
    }


def _texts(maps: Sequence[Mapping[str, str | None] | None]) -> pa.Array:
    return pa.array([None if one is None else list(one.items()) for one in maps], TEXTS)


def _vector(vector: DeletionVector | None) -> dict[str, object] | None:
    return None if vector is None else encode_vector(vector)
