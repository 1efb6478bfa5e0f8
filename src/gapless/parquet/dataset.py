"""A pinned version as an Arrow dataset, for engines that push their filters and columns into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from gapless.errors import ObjectNotFound
from gapless.model.index import IndexSpec
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.parquet.source import open_object
from gapless.scan.opaque import guarantee
from gapless.scan.plan import known_stats

if TYPE_CHECKING:
    import pyarrow.dataset as ds


class StoreFileSystem(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """A store as a read-only Arrow filesystem."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __eq__(self, other: object) -> bool:
        """Whether both are over one store."""
        return isinstance(other, StoreFileSystem) and other._store is self._store

    def __hash__(self) -> int:
        """By the store's place."""
        return hash(self._store.url)

    def get_type_name(self) -> str:
        """For messages."""
        return "gapless"

    def normalize_path(self, path: str) -> str:
        """As it is."""
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """Size and kind of each path."""
        return [self._info(path) for path in paths]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """A seekable file."""
        return open_object(self._store, path, self._store.head(path).size)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """A file read from its start."""
        return self.open_input_file(path)

    def _info(self, path: str) -> fs.FileInfo:
        try:
            return fs.FileInfo(path, fs.FileType.File, size=self._store.head(path).size)
        except ObjectNotFound:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("a pinned version is read only")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse


def segment_dataset(store: Store, segments: Sequence[Segment], index: IndexSpec, schema: pa.Schema) -> ds.Dataset:
    """The segments as one dataset of the table's declared schema; what the log knows of each prunes it."""
    import pyarrow.dataset as ds

    file_format = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    remote = fs.PyFileSystem(StoreFileSystem(store))
    fragments = []
    for segment in segments:
        local = store.local_path(segment.path)
        known = guarantee(known_stats(segment, index), segment.rows, schema)
        fragments.append(
            file_format.make_fragment(
                local or segment.path, fs.LocalFileSystem() if local else remote, partition_expression=known
            )
        )
    return ds.FileSystemDataset(fragments, schema, file_format, filesystem=None)
