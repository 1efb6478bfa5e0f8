"""Where the files of a Delta table lie, which may be outside its root."""

from __future__ import annotations

from dataclasses import dataclass, field

from gapless.dialects.delta.file_path import RelativePath, locate
from gapless.errors import InvalidPath, UnsupportedTable
from gapless.model.protocols import Store
from gapless.store.object import ObjectStore
from gapless.store.open import open_store

_FILE = "file://"


@dataclass(frozen=True, slots=True)
class Place:
    """A store, and a path in it."""

    store: Store
    path: str


@dataclass(frozen=True, slots=True)
class Places:
    """The stores of one table: its own, and others as its log names them."""

    home: Store
    """The store whose root is the table's."""
    _known: dict[str, Store] = field(default_factory=dict, repr=False, compare=False)

    def of(self, path: str) -> Place:
        """Where a path as the log has it lies.

        Another bucket is reached with the options of the table's own. Raises CorruptTable for what is no path, UnsupportedTable for a kind
        of store that is not known here.
        """
        found = locate(path)
        if isinstance(found, RelativePath):
            return Place(self.home, found.path)
        home = self.home.url
        root, below = _split(f"{_origin(home)}{found.url}" if found.url.startswith("/") else found.url)
        if root + below == f"{home}/{(root + below)[len(home) + 1 :]}":
            return Place(self.home, (root + below)[len(home) + 1 :])
        return Place(self._store(root, path), below)

    def _store(self, root: str, path: str) -> Store:
        if root not in self._known:
            options = self.home.options if isinstance(self.home, ObjectStore) and "://" in root else None
            try:
                self._known[root] = open_store(root.rstrip("/") or "/", options)
            except InvalidPath as error:
                raise UnsupportedTable(
                    f"the log names a file {path}, which lies where this release cannot read",
                    why=error.why,
                    fix="Copy the table to a disk or a bucket, with paths relative to its root",
                    needs=root,
                ) from error
        return self._known[root]


def _origin(home: str) -> str:
    """What a path that begins with a slash is meant to follow: the file system or the bucket that a table lies in.

    >>> _origin("/data/t"), _origin("s3://bucket/a/t")
    ('file://', 's3://bucket')
    """
    scheme, separator, rest = home.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else _FILE


def _split(url: str) -> tuple[str, str]:
    """What is opened of a URL, up to a slash, and what lies below that.

    >>> _split("file:///data/x.parquet"), _split("s3://bucket/a/x.parquet")
    (('/', 'data/x.parquet'), ('s3://bucket/', 'a/x.parquet'))
    """
    if url.startswith(_FILE):
        return "/", url[len(_FILE) :].lstrip("/")
    scheme, _, rest = url.partition("://")
    container, _, below = rest.partition("/")
    return f"{scheme}://{container}/", below
