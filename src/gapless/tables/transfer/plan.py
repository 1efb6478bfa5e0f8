"""Decide of each file of a source whether a time-series table takes it as it is, and in which commits the files come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, groupby
from urllib.parse import quote, unquote

import pyarrow as pa

from gapless.errors import DataError, SchemaMismatch, UnreadableInput
from gapless.files.adopt.source import Source
from gapless.files.pages.footer import row_group_stats
from gapless.formats.timeseries.actions import TableMeta
from gapless.model.schema import reconcile
from gapless.tables.delta.files.layout import may_be_old_calendar
from gapless.tables.timeseries.write.layout import check_layout
from gapless.tables.transfer.report import Outcome, PlannedFile
from gapless.tables.transfer.sources.foreign import ForeignFile, ForeignTable

TAKEN_FILES = 1_000
"""Files that one commit takes at most."""
WRITTEN_BYTES = 1 << 30
"""Bytes of files whose rows one commit writes anew at most, but for one larger file."""
WRITTEN_FILES = 10_000
APP = "gapless.import"


@dataclass(frozen=True, slots=True)
class Plan:
    """A file of a source, and what becomes of it."""

    file: ForeignFile
    planned: PlannedFile


def plan_file(file: ForeignFile, schema: pa.Schema, meta: TableMeta, *, rewrite: bool = False) -> PlannedFile:
    """What becomes of a file in a table with this schema; its footer is read, where it lies on this machine.

    `rewrite` says that no file is to be taken as it is.
    """
    if file.refused is not None:
        return _planned(file, "refused", file.refused.reason, file.refused.fix)
    reasons = (*(("it was asked for",) if rewrite else ()), *file.must_rewrite)
    if file.path is None:
        return _planned(file, "rewritten", "; ".join((*reasons, "it does not lie on a disk of this machine")))
    try:
        source = Source.open(file.path)
    except UnreadableInput as error:
        return _planned(file, "refused", error.why or error.what, "Bring the file back from a backup, or write it anew")
    if not file.has_deleted_rows and (null := _null_key(source, meta)):
        return _planned(file, "refused", *null)
    lacking = [name for name in schema.names if name not in source.layout.schema.names] if file.complete else []
    reasons = reasons or (*(f"{name}: not in the file" for name in lacking), *_differences(source, schema, meta))
    if reasons:
        return _planned(file, "rewritten", "; ".join(reasons))
    return _planned(file, "taken", rows=source.rows)


def _planned(file: ForeignFile, outcome: Outcome, reason: str = "", fix: str = "", rows: int | None = None) -> PlannedFile:
    known = file.live.rows_hint if rows is None else rows
    return PlannedFile(name=file.name, outcome=outcome, reason=reason, fix=fix, rows=known, size=file.size)


def _null_key(source: Source, meta: TableMeta) -> tuple[str, str] | None:
    """Why and what to do where the footer counts nulls in a column that has none in a time-series table."""
    metadata, schema = source.layout.metadata, source.layout.schema
    for name in meta.index.keys:
        known = [row_group_stats(metadata, group, schema)(name) for group in range(metadata.num_row_groups)]
        nulls = sum(one.nulls or 0 for one in known if one is not None)
        if nulls:
            return f"column {name!r} is null in {nulls:,} of its rows", "Fill them, or delete these rows, in the source first"
    return None


def _differences(source: Source, schema: pa.Schema, meta: TableMeta) -> Iterator[str]:
    """Why a file's columns do not lie as a table's files hold them."""
    if may_be_old_calendar(source.layout.metadata):
        yield "its writer may have meant dates in the old calendar"
    try:
        reconcile(schema, source.layout.schema, meta.index, meta.ids)
        check_layout(source.layout, schema, meta)
    except SchemaMismatch as error:
        yield from error.differences
    except DataError as error:
        yield error.what


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Files that come in one commit, all of one outcome."""

    number: int
    """From 1."""
    outcome: Outcome
    files: tuple[ForeignFile, ...]


def batches_of(plans: Sequence[Plan]) -> list[Batch]:
    """The commits of an import, in order: files that are taken first. Files that are refused are in none."""
    numbers = count(1)
    found = []
    for outcome in ("taken", "rewritten"):
        files = [one.file for one in plans if one.planned.outcome == outcome]
        for _, together in groupby(_numbered(files, outcome), key=lambda pair: pair[0]):
            found.append(Batch(number=next(numbers), outcome=outcome, files=tuple(file for _, file in together)))
    return found


def _numbered(files: Sequence[ForeignFile], outcome: Outcome) -> Iterator[tuple[int, ForeignFile]]:
    """Each file with the number of its batch among those of the outcome."""
    most = TAKEN_FILES if outcome == "taken" else WRITTEN_FILES
    number = held = size = 0
    for file in files:
        if held and (held == most or (outcome == "rewritten" and size + file.size > WRITTEN_BYTES)):
            number, held, size = number + 1, 0, 0
        held, size = held + 1, size + file.size
        yield number, file


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportId:
    """What names one import, so that its commits are known again; the app of its operation ids."""

    format: str
    source: str
    """The source's id."""
    version: str
    """The version that is imported."""
    batches: int
    """How many commits it has."""
    plan: str
    """What tells plans apart: which files come in which commit, and which columns they have."""

    @classmethod
    def of(cls, source: ForeignTable, batches: Sequence[Batch]) -> ImportId:
        """That of an import with these commits."""
        lines = [f"{one.number} {one.outcome} {file.name} {file.size}" for one in batches for file in one.files]
        text = "\n".join([str(source.schema.remove_metadata()), *lines])
        digest = sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
        return cls(format=source.format, source=source.id, version=source.version, batches=len(batches), plan=digest)

    @classmethod
    def parse(cls, app: str) -> ImportId | None:
        """The import that an app is of; None for another app.

        >>> ImportId.parse("gapless.import/delta/5f/7/2/ab").version
        '7'
        """
        match [unquote(part) for part in app.split("/")]:
            case [name, kind, source, version, batches, plan] if name == APP and batches.isdigit():
                return cls(format=kind, source=source, version=version, batches=int(batches), plan=plan)
        return None

    @property
    def app(self) -> str:
        """The app of its operation ids; their sequences are the numbers of its commits."""
        parts = (self.format, self.source, self.version, str(self.batches), self.plan)
        return "/".join((APP, *(quote(part, safe="") for part in parts)))
