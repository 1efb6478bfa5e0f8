"""Every error gapless raises, in one tree that is cut by what the reader would do next.

```
GaplessError
├── CallError                fix the call                                 exit code 2
│   ├── InvalidOption          an option, property or format that is not known or not valid
│   ├── UnknownColumn          a column the table does not have
│   ├── InvalidChange          a change that a column cannot take
│   ├── InvalidTime            an instant that cannot be read, or naive against aware
│   ├── InvalidFilter          a `where` text that cannot be understood
│   ├── InvalidQuery           SQL that cannot be answered
│   │   └── QueryLimitExceeded   a query that was stopped at a limit
│   ├── InvalidPipeline        the SQL of a pipeline that cannot be read or run
│   ├── InvalidPath            a table path that names no usable place
│   ├── TableExists            create on a path that already holds a table
│   ├── TableNotFound          open on a path that holds none
│   │   └── NotReplicated      a partial copy of a lake lacks the table
│   ├── ReadOnlyReplica        a copy of a lake that is not written into
│   ├── VersionNotFound        a version the table does not have
│   ├── OperationReused        an operation id that another kind of change has
│   └── NotSupported           a known wish that this release cannot fulfil
│       ├── SourceCannotReplay   a source that cannot be read again, in a pipeline
│       ├── SinkCannotDedup      a sink that does not know what it committed, in a pipeline
│       ├── NoCheckpointing      a pipeline without a checkpoint store
│       └── RetractingInput      rows that tell of changes, into a sink that takes none
├── DataError                fix the data                                 exit code 1
│   ├── SchemaMismatch         the input does not fit the table's schema
│   ├── UnsupportedType        an Arrow type that no table can hold
│   ├── NullKey                a null in the index or an entity column
│   ├── DuplicateKey           a key that several rows have and only one may
│   ├── InvalidValue           a value out of range, or one that would lose something
│   ├── AmbiguousTime          a local time that a DST change skips or repeats
│   ├── UnreadableInput        a file or object that cannot be read as data
│   ├── InvalidRecord          a change record, or an envelope of one, that does not fit
│   └── ImportRefused          a table some of whose files cannot be imported
├── ConflictError            read again, then decide
│   ├── CoverageOverlap        the table already covers these buckets     exit code 4
│   ├── CommitConflict         another commit came first and clashes      exit code 1
│   ├── PreparedFilesMissing   files of a prepared commit are gone        exit code 1
│   ├── StreamRestarted        a stream that may bring rows a second time  exit code 1
│   ├── LeaseRefused           another run has the pipeline's cursor      exit code 1
│   └── SyncConflict           two copies of a lake that both went on     exit code 1
├── CommitOutcomeUnknown     check whether it landed, then decide         exit code 5
├── FillStopped              mend the cause, then fill again              exit code 1
├── PartialFailure           mend the cause, then run again               exit code 1
├── PipelineFailed           mend the cause, then run again               exit code 1
├── SparkNotStarted          mend the machine, then run again             exit code 1
├── TableError               the table, not the call, is the matter       exit code 1
│   ├── UnsupportedTable       written by a release or with a feature we cannot honour
│   ├── UpgradeNeeded          a first write that would shut other writers out
│   ├── ForeignCommit          a published table that another writer changed
│   └── CorruptTable           bytes that are missing, torn or altered
└── StoreError               mend the disk, the bucket or the permission  exit code 1
    ├── ObjectNotFound         nothing is stored there
    ├── ObjectExists           something is stored there already
    ├── ObjectChanged          something else is stored there by now
    ├── StorageFull            no space, no inodes or no quota left
    ├── AccessDenied           read-only, or no permission
    └── StoreUnavailable       no answer, or one that says nothing about the effect
```

A message has three parts: what happened (with values), why, and what to do. The facts in it are
attributes too, so that a program need not read the text. `code` never changes once released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import ClassVar, TypeVar


class GaplessError(Exception):
    """The root of the tree: catch this to catch everything gapless raises.

    `what` happened, `why`, and what to do (`fix`) make the message; `facts` become attributes,
    named as the class annotates them.
    """

    code: ClassVar[str] = "gapless"
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, why: str = "", fix: str = "", **facts: object) -> None:
        # A lone surrogate in a name or value could not be printed.
        what, why, fix = (text.encode(errors="backslashreplace").decode() for text in (what, why, fix))
        self.what, self.why, self.fix = what, why, fix
        self.facts: Mapping[str, object] = facts
        for name, value in facts.items():
            setattr(self, name, value)
        sentences = (s if s.endswith((".", "?", "!")) else s + "." for s in (what, why, fix) if s)
        super().__init__(" ".join(sentences))

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, so that an error raised in a worker process keeps its facts."""
        return _rebuild, (type(self), self.what, self.why, self.fix, dict(self.facts))


def _rebuild(kind: type[GaplessError], what: str, why: str, fix: str, facts: dict[str, object]) -> GaplessError:
    return kind(what, why=why, fix=fix, **facts)


class CallError(GaplessError):
    """What the caller typed is wrong; nothing was done."""

    code = "call"
    exit_code = 2


class InvalidOption(CallError):
    """An option, property, file format or argument that is unknown or not valid."""

    code = "invalid-option"
    option: str
    value: object


class UnknownColumn(CallError):
    """A column name that the table does not have; `columns` lists those it has."""

    code = "unknown-column"
    column: str
    columns: tuple[str, ...]


class InvalidChange(CallError):
    """A change of the table's columns that it cannot take, such as dropping the index; `column` is the path, dotted."""

    code = "invalid-change"
    column: str


class InvalidTime(CallError):
    """An index value in a call that cannot be read, or one naive where the table is aware (or the reverse)."""

    code = "invalid-time"
    value: object


class InvalidFilter(CallError):
    """A `where` that is no SQL or uses SQL that a scan cannot answer, or a filter or an expression of documents that is none."""

    code = "invalid-filter"
    where: str


class InvalidQuery(CallError):
    """A query that DuckDB cannot parse, plan or answer."""

    code = "invalid-query"
    sql: str


class QueryLimitExceeded(InvalidQuery):
    """A query that was stopped because it went past a limit; `limit` names it, such as "seconds"."""

    code = "query-limit-exceeded"
    limit: str


class InvalidPipeline(CallError):
    """The SQL of a pipeline that cannot be read or run: `line` and `column` from 1, and the line with a caret under the place in `excerpt`."""

    code = "invalid-pipeline"
    line: int
    column: int
    excerpt: str = ""

    def __str__(self) -> str:
        """The message, and the place below it."""
        return f"{super().__str__()}\n{self.excerpt}".rstrip()


class InvalidPath(CallError):
    """A table path that cannot name a place."""

    code = "invalid-path"
    path: str


class TableExists(CallError):
    """`create` found a table there."""

    code = "table-exists"
    path: str


class TableNotFound(CallError):
    """`open` found no table there."""

    code = "table-not-found"
    path: str


class NotReplicated(TableNotFound):
    """A partial copy of a lake does not have what was asked for, and the place that it was pulled from has."""

    code = "not-replicated"


class ReadOnlyReplica(CallError):
    """A copy of a lake that is pulled or pushed to is not written into; `source` is where it was pulled from, if it was."""

    code = "read-only-replica"
    source: str | None


class VersionNotFound(CallError):
    """A version was asked for that the table does not have, or does not keep any more; the message says what remains."""

    code = "version-not-found"
    version: int


class OperationReused(CallError):
    """An operation id was given to a change, and a change of another kind, or of other rows, was applied under it; nothing was done.

    `applied` and `asked` are the two, such as "append" and "delete", or "append of 3 rows" and "append of 5 rows"; `version` holds the first, None where the log no longer says.
    """

    code = "operation-reused"
    operation_id: object
    applied: str
    asked: str
    version: int | None


class NotSupported(CallError):
    """A known wish that this release cannot fulfil; `feature` names it."""

    code = "not-supported"
    feature: str


class SourceCannotReplay(NotSupported):
    """A pipeline's source cannot be read again from a cursor: what was read and not committed would be lost in a crash."""

    code = "source-cannot-replay"


class SinkCannotDedup(NotSupported):
    """A pipeline's sink does not know which checkpoints it has committed: one sent again would be doubled; `sink` is its name."""

    code = "sink-cannot-dedup"
    sink: str


class NoCheckpointing(NotSupported):
    """A pipeline has no checkpoint store: after a crash nobody would know which rows are in its sinks."""

    code = "no-checkpointing"


class RetractingInput(NotSupported):
    """Rows tell in `column` that others were changed or removed, and the sink would write them all as rows."""

    code = "retracting-input"
    column: str


class DataError(GaplessError):
    """The input is refused and nothing was written; fix the data and send it again."""

    code = "data"


class SchemaMismatch(DataError):
    """The input does not fit the table's schema; `differences` says where, one line a column."""

    code = "schema-mismatch"
    differences: tuple[str, ...]


class UnsupportedType(DataError):
    """A column's Arrow type cannot be stored."""

    code = "unsupported-type"
    column: str
    type: str


class NullKey(DataError):
    """The index or an entity column holds a null; `row` counts from 0 over the whole input."""

    code = "null-key"
    column: str
    row: int


class DuplicateKey(DataError):
    """Several rows have one key where only one may: in one input of an upsert, or in a `unique` table.

    `columns` are the key's; `keys` the first few that occur more than once, each a tuple of their values.
    """

    code = "duplicate-key"
    columns: tuple[str, ...]
    keys: tuple[tuple[object, ...], ...]


class InvalidValue(DataError):
    """A value cannot be stored without loss; `row` counts from 0 over the whole input."""

    code = "invalid-value"
    column: str
    row: int
    value: object


class AmbiguousTime(DataError):
    """A naive local time that the zone's clock change skips or repeats."""

    code = "ambiguous-time"
    column: str
    row: int
    value: object
    timezone: str


class UnreadableInput(DataError):
    """A file, or an object handed to `append`, that cannot be read as rows."""

    code = "unreadable-input"
    source: str


class InvalidRecord(DataError):
    """A change record, or a message of another system that is to be one, has a field that does not fit: `field` is its path."""

    code = "invalid-record"
    field: str
    value: object


class ImportRefused(DataError):
    """Some files of a table cannot be imported, so nothing was: `files` are their names, as `source` calls them."""

    code = "import-refused"
    source: str
    files: tuple[str, ...]


class ConflictError(GaplessError):
    """The table holds something this change may not step over; nothing was written."""

    code = "conflict"


class CoverageOverlap(ConflictError):
    """The table already covers buckets of the input.

    `identity` is the first that overlaps; `start` (inclusive) and `end` (exclusive) bound its first
    and last overlapping bucket; `buckets` counts the overlap over all `identities`; `version` is the
    commit that covers the first of them.
    """

    code = "coverage-overlap"
    exit_code = 4
    identity: tuple[object, ...]
    start: object
    end: object
    buckets: int
    identities: int
    version: int | None


class CommitConflict(ConflictError):
    """Another writer's commit came first and cannot stand beside this one; `version` is theirs."""

    code = "commit-conflict"
    version: int
    reason: str


class PreparedFilesMissing(ConflictError):
    """Files of a prepared commit are gone, `paths` below the table's root: nothing was committed."""

    code = "prepared-files-missing"
    paths: tuple[str, ...]
    checkpoint_id: int


class StreamRestarted(ConflictError):
    """A streaming query that the table does not know goes on where another one was, or in the middle: its rows may be there already.

    `query` is its id, `batch` the number of the refused batch; `location` is that of its checkpoint, None where it is not known.
    """

    code = "stream-restarted"
    query: str
    batch: int
    location: str | None


class LeaseRefused(ConflictError):
    """A run of a lake does not have the lease of its pipeline's cursor, or lost it; `holder` is the node and run that has or had it."""

    code = "lease-refused"
    pipeline: str
    holder: str


class SyncConflict(ConflictError):
    """Two copies of a lake cannot be brought together in `tables`; what concerns no other table is copied. `report` (a `SyncReport`) says what was
    copied, and its `conflicts` what differs.
    """

    code = "sync-conflict"
    tables: tuple[str, ...]
    report: object


class CommitOutcomeUnknown(GaplessError):
    """The store gave no usable answer: the commit may or may not have landed as `version`.

    Nothing was deleted. Open the table and look for `commit_id` in its history.
    """

    code = "commit-outcome-unknown"
    exit_code = 5
    version: int
    commit_id: str


class FillStopped(GaplessError):
    """A fill ended early: `fetch` raised, or gave what cannot be appended, when asked for `[start, end)` of `identity`.

    What was fetched before is in the table; `report` (a `FillReport`) says what, and what is still missing. The cause is `__cause__`.
    """

    code = "fill-stopped"
    identity: tuple[object, ...]
    start: object
    end: object
    report: object


class PartialFailure(GaplessError):
    """The source of a lake's run failed after some pages, which are committed: `rows` of them as `run`. The next run goes on at `cursor`.

    The cause is `__cause__`.
    """

    code = "partial-failure"
    run: str
    rows: int
    cursor: object


class PipelineFailed(GaplessError):
    """A pipeline that Spark stopped at a batch of its; `sinks` are those that it was for. The batch comes again with the next run."""

    code = "pipeline-failed"
    sinks: tuple[str, ...]


class SparkNotStarted(GaplessError):
    """Spark could not be started, or reached, on this machine: a package that is not to be had, a Java that ends, a server that does not answer.

    `packages` are those that were asked for from Maven, `java` is the JAVA_HOME; empty where there are none.
    """

    code = "spark-not-started"
    packages: tuple[str, ...]
    java: str


class TableError(GaplessError):
    """The table itself is the matter."""

    code = "table"


class UnsupportedTable(TableError):
    """The table needs a protocol version or a feature that this release does not have."""

    code = "unsupported-table"
    needs: str


class UpgradeNeeded(TableError):
    """The first write of gapless would shut this table's other writers out."""

    code = "upgrade-needed"
    path: str


class ForeignCommit(TableError):
    """The description of a table in another format, `format`, has a commit that gapless did not make: its `published_version`."""

    code = "foreign-commit"
    format: str
    published_version: int


class CorruptTable(TableError):
    """Bytes of the table are missing, torn or altered; `path` is relative to the table root."""

    code = "corrupt-table"
    path: str


class StoreError(GaplessError):
    """The disk, the bucket or the way to it failed."""

    code = "store"
    path: str


class ObjectNotFound(StoreError):
    """Nothing is stored under this path."""

    code = "object-not-found"


class ObjectExists(StoreError):
    """A put-if-absent found something stored under this path."""

    code = "object-exists"


class ObjectChanged(StoreError):
    """A conditional replace found another object under this path than the one it was to replace, or none."""

    code = "object-changed"


class StorageFull(StoreError):
    """No space, inodes or quota are left."""

    code = "storage-full"


class AccessDenied(StoreError):
    """The place is read-only, or we lack the permission."""

    code = "access-denied"


class StoreUnavailable(StoreError):
    """No answer came, or one that does not say whether the request took effect."""

    code = "store-unavailable"


class LogWarning(UserWarning):
    """A shortcut of the log, such as a checkpoint, is missing or damaged, and the table is read without it; or compaction after an append failed;
    or a table is kept in another format too, which gapless does not do, or keeps its log from being cleaned.
    """


_MOST_SHOWN = 80


def shorten(value: object) -> str:
    """A value for a message: as Python writes it, or its beginning and how long it is.

    >>> shorten("a" * 10_000).partition("…")[2]
    ' (10,000 characters)'
    """
    if isinstance(value, str | bytes) and len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]!r}… ({len(value):,} {'bytes' if isinstance(value, bytes) else 'characters'})"
    return shorten_text(repr(value))


def shorten_text(text: str) -> str:
    """The text of a value for a message: the whole, or its beginning and how long it is."""
    return text if len(text) <= 2 * _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text):,} characters)"


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, or list what there is: a `fix` for unknown names."""
    names = sorted(known)
    close = [one for one in names if one.casefold() == name.casefold()] or get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    shown = ", ".join(repr(n) for n in names[:12]) + (", …" if len(names) > 12 else "")
    return f"There are: {shown}" if shown else "There are none"


Text = TypeVar("Text", bound=str)


def needs_library(what: str, library: str, extra: str) -> NotSupported:
    """The error for what cannot be done without a library that is not installed; `extra` of gapless brings it."""
    return NotSupported(
        f"{what} needs {library}", why="It is not installed", fix=f"pip install 'gapless[{extra}]'", feature=extra
    )


def one_of(option: str, value: object, known: Sequence[Text], why: str = "") -> Text:
    """The value of an option, which is one of these texts; raises InvalidOption.

    >>> one_of("mode", "append", ("append", "overwrite"))
    'append'
    """
    for one in known:
        if isinstance(value, str) and value == one:
            return one
    raise InvalidOption(
        f"{option}={shorten(value)} is not known", why=why, fix=nearest(str(value), known), option=option, value=value
    )
