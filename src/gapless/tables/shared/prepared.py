"""Prepared commits: a change whose files are durable, as a JSON document beside the table's log, until it is finalized or aborted.

The document is stored under `_prepared/` of the table, so that VACUUM of any process sees what it keeps; docs/spec/prepared-commit.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from gapless.errors import (
    CorruptTable,
    ObjectChanged,
    ObjectExists,
    ObjectNotFound,
    PreparedFilesMissing,
    StoreError,
    UnsupportedTable,
)
from gapless.files.write.staged_files import StagedFiles
from gapless.model.operation import SequenceId
from gapless.model.protocols import WRITER_HORIZON_NS, Store, defers_writes, replaces_if_match
from gapless.runtime.committer import calling_on_error
from gapless.tables.shared.handle import is_stored

PREPARED_FOLDER = "_prepared"
FORMAT = 1
"""Of the document: a higher one was written by a newer release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedFile:
    """A data file that a prepared commit names."""

    path: str
    """Below the table's root."""
    rows: int
    size: int
    """Bytes."""


class EpochOfOpenFiles:
    """Rows of one epoch go into data files that stay open until they are large enough."""

    __slots__ = ()
    attempt: StagedFiles
    files: Any
    """Those in the making, with `copy`, `write` and `close`, and those that are stored."""

    def add(self, rows: Sequence[pa.RecordBatch], *, close: bool) -> Callable[[], None]:
        """Take fitted rows; see `connect.sinks.epoch.Epoch.add`. A file stays open until it is large enough, or `close`."""
        undo = partial(self._undo, self.files, len(self.attempt.written))
        with calling_on_error(undo):
            self.files = self.files.copy()
            self.files.write(rows)
            if close:
                self.files.close()
        return undo

    def _undo(self, before: Any, mark: int) -> None:
        self.files = before
        self.attempt.undo(mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommit:
    """A change that is staged and can be finalized by any process, once."""

    kind: str
    """What it changes: "timeseries", "delta", or a name of its own for a sink that is not ours."""
    table: str
    """The table's URL when it was prepared, for messages."""
    table_id: str
    """Names the table that lay there: another one made in its place is not it."""
    operation: SequenceId
    """The pipeline's sink and the checkpoint, by which the log knows whether it was committed."""
    change: Mapping[str, Any]
    """What is to be done with the rows: `mode`, and its options."""
    files: tuple[PreparedFile, ...]
    kept: tuple[str, ...] = ()
    """Further objects that it needs, such as sidecars."""
    staged: Mapping[str, Any] = field(default_factory=dict)
    """What the table's format must know to commit the files as they are."""
    prepared_ns: int
    """When, in nanoseconds since 1970 UTC, by the writer's clock."""
    attempt: str
    """Tells several preparations of one checkpoint apart."""
    aborted: bool = False
    """Whether an abort of it began: it is not finalized any more."""

    @property
    def checkpoint_id(self) -> int:
        """The pipeline checkpoint that it belongs to."""
        return self.operation.sequence

    @property
    def data_files(self) -> tuple[str, ...]:
        """The paths of its data files, below the table's root."""
        return tuple(file.path for file in self.files)

    @property
    def bytes_written(self) -> int:
        """The size of its data files together."""
        return sum(file.size for file in self.files)

    @property
    def records_written(self) -> int:
        """The rows in its data files."""
        return sum(file.rows for file in self.files)

    @property
    def needs(self) -> tuple[str, ...]:
        """The paths of all objects that must be there when it is finalized."""
        return (*self.data_files, *self.kept)

    @property
    def path(self) -> str:
        """Where the document lies, below the table's root."""
        return f"{folder_of(self.operation.app)}/{self.checkpoint_id:020d}-{self.attempt}.json"

    @property
    def body(self) -> dict[str, Any]:
        """The document as JSON's values, with its checksum."""
        body = {
            "format": FORMAT,
            "kind": self.kind,
            "table": self.table,
            "table_id": self.table_id,
            "operation": {"app": self.operation.app, "checkpoint_id": self.checkpoint_id},
            "change": dict(self.change),
            "files": [{"path": file.path, "rows": file.rows, "bytes": file.size} for file in self.files],
            "kept": list(self.kept),
            "staged": dict(self.staged),
            "prepared_ns": self.prepared_ns,
            "attempt": self.attempt,
        }
        return with_checksum(body | ({"aborted": True} if self.aborted else {}))

    def to_json(self) -> str:
        """The document, with its checksum."""
        return text_of(self.body)

    @classmethod
    def from_json(cls, text: str | bytes, path: str = "the prepared commit") -> PreparedCommit:
        """Read a document; `path` names it in messages. Raises CorruptTable, UnsupportedTable for one of a newer release."""
        try:
            body = json.loads(text)
            number = body["format"]
        except (ValueError, TypeError, KeyError) as error:
            raise _damaged(path, f"It is not its JSON: {error}") from error
        if not isinstance(number, int) or number > FORMAT:
            raise UnsupportedTable(
                f"{path} is a prepared commit of format {number!r}",
                why=f"This release knows format {FORMAT}",
                fix="Finalize it with the release that prepared it, or a newer gapless",
                needs=f"prepared commit {number!r}",
            )
        try:
            if not is_intact(body):
                raise _damaged(path, "Its checksum is not that of what it says")
            operation = SequenceId(str(body["operation"]["app"]), int(body["operation"]["checkpoint_id"]))
            files = tuple(
                PreparedFile(path=one["path"], rows=int(one["rows"]), size=int(one["bytes"])) for one in body["files"]
            )
            return cls(
                kind=body["kind"],
                table=body["table"],
                table_id=body["table_id"],
                operation=operation,
                change=body["change"],
                files=files,
                kept=tuple(body["kept"]),
                staged=body["staged"],
                prepared_ns=int(body["prepared_ns"]),
                attempt=body["attempt"],
                aborted=bool(body.get("aborted", False)),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _damaged(path, f"{type(error).__name__}: {error}") from error


def folder_of(app: str) -> str:
    """The folder of one sink's prepared commits: any text may be its name, and folders have few characters."""
    return f"{PREPARED_FOLDER}/{hashlib.sha256(app.encode()).hexdigest()[:32]}"


def store_prepared(store: Store, prepared: PreparedCommit, after: Sequence[str] = ()) -> None:
    """Store the document, durably, once those files of `after` are durable that were deferred; sent twice it is the same.

    Raises StoreError; then no document is there, as far as it could be removed.
    """
    data = prepared.to_json().encode()
    try:
        if after and defers_writes(store):
            try:
                store.put_after(prepared.path, data, after)
            except ObjectExists:  # its name is unique: an own put, sent twice
                store.settle(after)
            else:
                return
        store.put(prepared.path, data, mode="overwrite")
    except BaseException:
        with contextlib.suppress(StoreError):
            store.delete(prepared.path)
        raise


def prepared_commits(store: Store, app: str | None = None, *, before: PreparedCommit | None = None) -> Iterator[PreparedCommit]:
    """What is prepared in a table and neither finalized nor aborted: by one sink, in order of checkpoints, or by all of them; those of
    checkpoints `before` another one of the sink's, if that is given.

    Raises CorruptTable and UnsupportedTable for a document that cannot be read, StoreError.
    """
    end = None if before is None else f"{folder_of(before.operation.app)}/{before.checkpoint_id:020d}"
    for info in store.list(PREPARED_FOLDER if app is None else folder_of(app)):
        if end is not None and info.path >= end:
            return
        if info.path.endswith(".json"):
            try:
                text = store.get(info.path)
            except ObjectNotFound:  # finalized or aborted since it was listed
                continue
            yield PreparedCommit.from_json(text, info.path)


def prepared_paths(store: Store, applied: Callable[[SequenceId], bool]) -> frozenset[str]:
    """The paths of all objects that prepared commits of a table need, and of their documents, but for those that were applied.

    Raises as `prepared_commits`: what a document keeps that cannot be read is not known.
    """
    waiting = (one for one in prepared_commits(store) if not applied(one.operation))
    return frozenset(path for one in waiting for path in (one.path, *one.needs))


def forget_abandoned(store: Store, now_ns: int, applied: Callable[[SequenceId], bool]) -> list[str]:
    """Remove what was staged beside prepared commits a day ago or longer and is named by none, which writers left that died; the paths.

    Raises as `prepared_commits`.
    """
    # In this order: what a document names is stored before it.
    old = [info.path for info in store.list(PREPARED_FOLDER) if abs(now_ns - info.modified_ns) >= WRITER_HORIZON_NS]
    kept = prepared_paths(store, applied) if old else frozenset()
    gone = [path for path in old if path not in kept and not path.endswith(".json")]
    for path in gone:
        store.delete(path)
    return gone


def forget_prepared(store: Store, prepared: PreparedCommit, unneeded: Sequence[str] = ()) -> None:
    """Remove the document, and first the files that nobody needs: cut off in between, the document still names them. Raises StoreError."""
    for path in unneeded:
        store.delete(path)
    store.delete(prepared.path)


def mark_aborted(store: Store, prepared: PreparedCommit) -> bool:
    """Say in the stored document that it is aborted; False where there is none, which was finalized or aborted. Raises CorruptTable, StoreError."""
    while True:
        try:
            # A store without a conditional replace may bring back a document that another process removed meanwhile: an aborted one.
            found = store.get_tagged(prepared.path) if replaces_if_match(store) else None
            stored = PreparedCommit.from_json(store.get(prepared.path) if found is None else found.data, prepared.path)
        except ObjectNotFound:
            return False
        data = replace(stored, aborted=True).to_json().encode()
        with contextlib.suppress(ObjectChanged):
            if stored.aborted:
                return True
            if found is not None and replaces_if_match(store):
                store.put_if_match(prepared.path, data, found.etag)
            else:
                store.put(prepared.path, data, mode="overwrite")
            return True


def require_not_aborted(store: Store, prepared: PreparedCommit) -> None:
    """Raise PreparedFilesMissing where an abort of it began, or its document is gone; CorruptTable, StoreError."""
    try:
        stored = PreparedCommit.from_json(store.get(prepared.path), prepared.path)
    except ObjectNotFound:
        raise missing_files(prepared, [prepared.path]) from None
    if stored.aborted:
        raise PreparedFilesMissing(
            f"checkpoint {prepared.checkpoint_id} of {prepared.operation.app} cannot be finalized: it is being aborted",
            why="Another process took it back, and deletes its files; nothing was committed",
            fix="Send its rows again from the source",
            paths=prepared.needs,
            checkpoint_id=prepared.checkpoint_id,
        )


def require_prepared_files(store: Store, prepared: PreparedCommit) -> None:
    """Raise PreparedFilesMissing where objects are gone that a prepared commit needs; StoreError."""
    missing = [path for path in prepared.needs if not is_stored(store, path)]
    if missing:
        raise missing_files(prepared, missing)


def missing_files(prepared: PreparedCommit, missing: Sequence[str]) -> PreparedFilesMissing:
    """The error for a prepared commit of which files are gone."""
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return PreparedFilesMissing(
        f"checkpoint {prepared.checkpoint_id} of {prepared.operation.app} cannot be finalized: {', '.join(missing[:3])}{more} are gone",
        why="They were prepared and then deleted by something that does not read _prepared/, such as another engine's vacuum; nothing was"
        " committed",
        fix="Abort the prepared commit, and send its rows again from the source",
        paths=tuple(missing),
        checkpoint_id=prepared.checkpoint_id,
    )


def unreadable_files(prepared: PreparedCommit, what: str, error: Exception) -> CorruptTable:
    """The error for a prepared commit whose `staged` makes no sense to the table's format, which calls the files `what`."""
    return CorruptTable(
        f"{prepared.path} names no {what} that can be read",
        why=f"{type(error).__name__}: {error}",
        fix="Abort it, and send its rows again from the source",
        path=prepared.path,
    )


def sealed(body: Mapping[str, Any]) -> str:
    """A JSON document with its checksum."""
    return text_of(with_checksum(body))


def with_checksum(body: Mapping[str, Any]) -> dict[str, Any]:
    """JSON's values with their checksum in a field `checksum`."""
    return {**body, "checksum": _checksum(body)}


def text_of(body: Mapping[str, Any]) -> str:
    """JSON's values as a document, in one line: with indents they take two to three times as long to write."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False)


def is_intact(body: Mapping[str, Any]) -> bool:
    """Whether a document says what it said when it was sealed. Raises KeyError for one without a checksum."""
    return bool(body["checksum"] == _checksum({name: value for name, value in body.items() if name != "checksum"}))


def _checksum(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _damaged(path: str, why: str) -> CorruptTable:
    return CorruptTable(
        f"{path} is no prepared commit that can be read",
        why=why,
        fix="Take it from the checkpoint that recorded it; if there is none, remove it, and vacuum takes its files",
        path=path,
    )
