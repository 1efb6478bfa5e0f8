"""The change feed of a table as change records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless import documents
from gapless.cdc.json_values import Json, json_text
from gapless.cdc.keyed_records import check_key
from gapless.cdc.record import ChangeSource, Record
from gapless.cdc.row_values import check_told, tell_rows
from gapless.errors import DuplicateKey, InvalidOption, NullKey, UnsupportedTable
from gapless.files.compare.keys import KeySet
from gapless.files.compare.row_diff import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE, PREIMAGE
from gapless.store.open import table_name
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.changes import COMMIT_TIMESTAMP, COMMIT_VERSION, FEED_FIELDS
from gapless.tables.shared.scan import Rows
from gapless.tables.timeseries.read.view import TableView

Table = DeltaView | TableView
_COLLECTION = "documents.version"
"""The property of tables that are collections of documents."""
_OURS = tuple(field.name for field in FEED_FIELDS)


def changes(
    table: Table,
    from_version: int | None = None,
    to_version: int | None = None,
    *,
    key: str | Sequence[str] | None = None,
    after: tuple[int, int] | None = None,
    from_time: object = None,
    to_time: object = None,
    exclude: Collection[str] | None = None,
) -> Iterator[Record]:
    """What each commit of a range did to the rows of a Delta or time-series table, as records: "c", "u" with both images, and "d".

    Args:
        table: Of a Delta table `delta.enableChangeDataFeed` is true.
        from_version: As in `table.changes`, as are `to_version`, `from_time`, `to_time` and `exclude`.
        to_version: The last version, inclusive; the newest that the handle sees where not given.
        key: The columns that tell rows apart: the record's `_id`, a value of one column or a dict of several. Of a time-series table the
            index and entity columns where not given, of a collection of documents their `_id`. Columns of a key may be excluded from the images.
        after: Instead of a beginning: the `_seq` of the record that was read last; those after it follow.
        from_time: Instead of `from_version`.
        to_time: Instead of `to_version`.
        exclude: Columns that are not told.

    Images have a row's columns as JSON, or, of a collection (`gl.documents.collection(path).table`), documents in MongoDB's relaxed extended JSON.
    `_seq` is the version and the number of the record in it, `_ts` the commit's time, `_source` the table by its name. Within a commit records come in the order of its change
    files, but that of two records of one key the removal comes first. The changed rows of one commit are held in memory.

    Raises InvalidOption, UnknownColumn, UnsupportedType (variants, or a key of nested values) and what `table.changes` raises at once; as records
    are read, DuplicateKey where a commit updated several rows of one key, NullKey, UnsupportedTable for a kind of change that the protocol does not have,
    CorruptTable, StoreError.
    """
    if after is not None:
        from_version = _version_of(after, from_version, from_time)
    teller = _Documents(table.url) if key is None and _is_collection(table) else _Columns(_key_of(table, key), exclude)
    left_out = teller.left_out(table.schema or pa.schema([]), exclude)
    feed = table.changes(from_version, to_version, from_time=from_time, to_time=to_time, exclude=left_out or None)
    check_told(feed.schema)
    told_of = ChangeSource(system="gapless", collection=table_name(table.url))

    def records() -> Iterator[Record]:
        for version, rows in _by_version(feed):
            for number, record in enumerate(_CommitRows(rows, teller, told_of, version).records()):
                if after is None or (version, number) > after:
                    yield record

    return records()


def _is_collection(table: Table) -> bool:
    return isinstance(table, DeltaView) and _COLLECTION in table.properties


class _Columns:
    """Tells rows by their columns."""

    skips_equal = False

    def __init__(self, key: tuple[str, ...], exclude: Collection[str] | None) -> None:
        self.key = key
        self._hidden = frozenset(exclude or ()) & frozenset(key)

    def left_out(self, schema: pa.Schema, exclude: Collection[str] | None) -> list[str]:  # noqa: ARG002  # as of documents
        """The columns that are not read."""
        return sorted(frozenset(exclude or ()) - frozenset(self.key))

    def told(self, rows: pa.Table, version: int) -> list[tuple[Json, dict[str, Json]]]:
        """The id and the image of each row."""
        return [
            (_id(image, self.key, version), {name: one for name, one in image.items() if name not in self._hidden})
            for image in tell_rows(rows)
        ]


class _Documents:
    """Tells rows of a collection by the documents in them."""

    key = ("_id",)
    skips_equal = True
    """Whether updates are left out that changed nothing but columns beside the document, such as those of a new index."""

    def __init__(self, url: str) -> None:
        documents.matches  # noqa: B018  # raises NotSupported where its library is not installed
        self._url = url

    def left_out(self, schema: pa.Schema, exclude: Collection[str] | None) -> list[str]:
        """The columns that are not read: those of indexes. Raises InvalidOption."""
        if exclude:
            raise InvalidOption(
                f"exclude={exclude!r} names columns, and a collection's changes are told as documents",
                why="The columns of its table are how documents are stored",
                fix='Leave it out, or pass key="_id" for the columns themselves',
                option="exclude",
                value=exclude,
            )
        return [name for name in schema.names if name not in ("_id", "document")]

    def told(self, rows: pa.Table, version: int) -> list[tuple[Json, dict[str, Json]]]:
        """The id and the document of each row."""
        from gapless.cdc.document_values import tell_documents

        return tell_documents(rows, f"version {version} of {self._url}")


def _version_of(after: object, from_version: object, from_time: object) -> int:
    if not (isinstance(after, tuple) and len(after) == 2 and all(type(one) is int and one >= 0 for one in after)):
        raise InvalidOption(
            f"after={after!r} is no place in a change feed",
            why="It is a version and the number of a record in it",
            fix="Pass the _seq of the record that was read last",
            option="after",
            value=after,
        )
    if from_version is not None or from_time is not None:
        raise InvalidOption(
            "after and from_version or from_time both say where to begin",
            why="A feed is read from one place",
            fix="Pass one of them",
            option="after",
            value=after,
        )
    return int(after[0])


def _key_of(table: Table, key: str | Sequence[str] | None) -> tuple[str, ...]:
    if key is None and isinstance(table, TableView):
        return tuple(table.index.keys)
    return check_key(key or (), table.schema or pa.schema([]))


def _by_version(feed: Rows) -> Iterator[tuple[int, pa.Table]]:
    """The feed's rows, one version after the other."""
    held: list[pa.RecordBatch] = []
    at = -1
    for batch in feed.to_batches():
        versions, start = batch.column(COMMIT_VERSION).to_numpy(), 0
        for end in [*(np.flatnonzero(np.diff(versions)) + 1).tolist(), len(versions)] if len(versions) else ():
            if held and versions[start] != at:
                yield at, pa.Table.from_batches(held)
                held = []
            at = int(versions[start])
            held.append(batch.slice(start, end - start))
            start = end
    if held:
        yield at, pa.Table.from_batches(held)


class _CommitRows:
    """The rows that one commit changed."""

    def __init__(self, rows: pa.Table, teller: _Columns | _Documents, source: ChangeSource, version: int) -> None:
        self._kinds = rows.column(CHANGE_TYPE).to_pylist()
        for kind in set(self._kinds):
            if kind not in (INSERT, PREIMAGE, POSTIMAGE, DELETE):
                raise UnsupportedTable(
                    f"version {version} has the kind of change {kind!r}",
                    why="The protocol has insert, update_preimage, update_postimage and delete",
                    fix="Read such versions by table.changes",
                    needs=f"_change_type {kind}",
                )
        self._ts = pc.cast(rows.column(COMMIT_TIMESTAMP)[0], pa.timestamp("ns", "UTC")).value
        images = rows.drop_columns(list(_OURS))
        told = teller.told(images, version)
        self._ids, self._images = [one for one, _ in told], [one for _, one in told]
        self._same = KeySet.of(images.combine_chunks(), teller.key).ids.tolist()
        self._key, self._source, self._version = teller.key, source, version
        self._skips_equal = teller.skips_equal

    def records(self) -> Iterator[Record]:
        """In their order."""
        before = self._single(PREIMAGE)
        updated = {same: row for same, row in self._single(POSTIMAGE).items() if same in before}
        removed = Counter(
            same for row, same in enumerate(self._same) if self._kinds[row] in (DELETE, PREIMAGE) and same not in updated
        )
        found: list[tuple[str, int]] = []
        late: list[tuple[str, int]] = []
        for row, (kind, same) in enumerate(zip(self._kinds, self._same, strict=True)):
            if kind in (INSERT, POSTIMAGE):
                if kind == POSTIMAGE and same in updated:
                    found.append(("u", row))
                else:
                    # A row whose key an update gave away or took over, and one that took the place of a deleted one.
                    (late if removed[same] else found).append(("c", row))
            elif kind == DELETE or same not in updated:
                found.append(("d", row))
        if self._skips_equal:
            found = [(op, row) for op, row in found if op != "u" or self._images[before[self._same[row]]] != self._images[row]]
        for number, (op, row) in enumerate([*found, *late]):
            image, same = self._images[row], self._same[row]
            yield Record(
                _id=self._ids[row],
                _seq=(self._version, number),
                _op=op,
                _before=image if op == "d" else self._images[before[same]] if op == "u" else None,
                _after=None if op == "d" else image,
                _ts=self._ts,
                _source=self._source,
            )

    def _single(self, kind: str) -> dict[int, int]:
        """The row of this kind by key. Raises DuplicateKey where a key has several."""
        found: dict[int, int] = {}
        for row, same in enumerate(self._same):
            if self._kinds[row] != kind:
                continue
            if same in found:
                raise DuplicateKey(
                    f"version {self._version} updated several rows with {', '.join(self._key)} = {json_text(self._ids[row])}",
                    why="Which image belongs to which row, only the key tells",
                    fix="Name columns that tell the rows apart as key=",
                    columns=self._key,
                    keys=((self._ids[row],),),
                )
            found[same] = row
        return found


def _id(image: dict[str, Json], key: tuple[str, ...], version: int) -> Json:
    found = {name: image[name] for name in key}
    for name, value in found.items():
        if value is None and len(key) == 1:
            raise NullKey(
                f"version {version} changed a row whose {name} is null",
                why="A record would say of no row what happened to it",
                fix="Name columns that are never null as key=",
                column=name,
                row=0,
            )
    return found[key[0]] if len(key) == 1 else found
