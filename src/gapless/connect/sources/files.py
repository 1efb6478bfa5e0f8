"""A source of files as they come into a folder or bucket: Parquet, CSV and JSON lines, each read once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal, get_args

import pyarrow as pa

from gapless.connect.sources.file_memory import FileMemory, SeenFile
from gapless.connect.sources.file_patterns import matches, split_pattern
from gapless.connect.sources.piecewise import Piece
from gapless.connect.sources.positioned import Position, PositionedSource, start_time
from gapless.errors import InvalidOption, InvalidPath, LogWarning, ObjectChanged, one_of
from gapless.files.ingest.files import open_files
from gapless.files.ingest.input_file import InputFile
from gapless.model.input_formats import Format, parse_format
from gapless.model.instant import datetime_from_ns
from gapless.model.protocols import ObjectInfo
from gapless.model.time.duration import parse_duration
from gapless.runtime.environment import Environment
from gapless.store.open import open_store

OnRewrite = Literal["error", "skip"]
ON_REWRITE: tuple[OnRewrite, ...] = get_args(OnRewrite)
_COPIED_BYTES = 8 << 20
_NAMES_SHOWN = 5
_NS_PER_US, _NS_PER_S = 1000, 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """How files are found and read."""

    pattern: str
    """Below the store's root, with `*`, `?`, `[…]` within names and `**` for folders."""
    format: Format | None
    """None: each by its suffix."""
    start: Literal["earliest", "latest"] | int
    """Which files count as new when it begins: all, none of those that are there, or those from this time on (nanoseconds since 1970 UTC)."""
    min_age_ns: int
    late_ns: int | None
    on_rewrite: OnRewrite


class FileSource(PositionedSource):
    """Rows of files, in the order of their times and paths; those of one file in its own order. Made by `gl.connect.source`.

    The cursor remembers each file that was read by its path, size and time, and the row of the one that is being read.
    """

    kind = "files"

    def __init__(self, env: Environment, options: FileOptions, schema: pa.Schema | None) -> None:
        """The files of `env.store` that match."""
        super().__init__(f"{env.store.url}/{options.pattern}", schema)
        self._env, self._options = env, options
        self._memory = FileMemory()

    def _first(self) -> Position:
        self._memory = FileMemory()
        start = self._options.start
        for seen in () if start == "earliest" else self._listed():
            if start == "latest" or seen.modified_ns < int(start):
                self._memory.add(seen)
        return Position(state={"read": self._memory.total, "current": None})

    def _resumed(self, state: Mapping[str, Any]) -> Position:
        current = state["current"]
        self._memory = FileMemory.from_json(state["read"])
        if current is not None:
            SeenFile(path=current["path"], size=int(current["size"]), modified_ns=int(current["modified_ns"]))
            if type(current["row"]) is not int or current["row"] < 1:
                raise ValueError(f"row {current['row']!r}")
        return Position(state={"read": self._memory.total, "current": current})

    def _stored(self, position: Position) -> Mapping[str, Any]:
        return {"read": self._memory.to_json(position.state["read"]), "current": position.state["current"]}

    def _read(self, position: Position) -> Iterator[Piece[Position]]:
        self._memory.go_back(position.state["read"])
        if self._options.late_ns is not None:
            self._memory.forget(self._options.late_ns, self._env.clock.now_ns())
        done, current = position.files_processed, position.state["current"]
        if current is not None:
            yield from self._file(current["path"], done, current)
            done += 1
        for seen in self._new():
            yield from self._file(seen.path, done, None)
            done += 1

    # -- which files -----------------------------------------------------------------------------------------------------

    def _listed(self) -> list[SeenFile]:
        """The files that match, oldest first. Raises InvalidPath where a local folder is not there, StoreError."""
        local = self._env.store.local_path("x")
        if local is not None and not Path(local).parent.is_dir():
            raise InvalidPath(
                f"there is no folder {self._env.store.url!r}",
                why="Files are to come into it",
                fix="Make it, or mend the path",
                path=self._env.store.url,
            )
        found = (one for one in self._env.store.list() if matches(one.path, self._options.pattern))
        return sorted(map(self._state_of, found))

    def _new(self) -> list[SeenFile]:
        """Those not read yet. Raises ObjectChanged for one that was rewritten, InvalidOption for those that came too late."""
        listed, youngest = self._listed(), self._env.clock.now_ns() - self._options.min_age_ns
        if self._options.on_rewrite == "error" and (changed := next(filter(self._memory.has_other, listed), None)):
            raise self._rewritten(changed)
        if self._memory.digests is None:
            self._take_for_read(self._memory.too_late(listed))
        elif late := self._memory.too_late(listed):
            raise InvalidOption(
                f"{len(late)} file{'s' * (len(late) > 1)} of {self.place} came later than late= allows: {_names(late)}",
                why=f"All that were modified before {datetime_from_ns(self._memory.horizon_ns or 0).isoformat()} are taken for read,"
                " and of these none was",
                fix="Give each a newer time (touch), so that it is read, or move it away; a larger late= waits longer",
                option="late",
                value=self._options.late_ns,
            )
        self._memory.keep_listed(listed)
        found = [one for one in listed if not self._memory.knows(one.path)]
        return [one for one in found if not self._options.min_age_ns or one.modified_ns <= youngest]

    def _take_for_read(self, old: list[SeenFile]) -> None:
        """Warn of old files that a cursor of an earlier version does not tell apart; raises InvalidOption where there are too many."""
        if len(old) > self._memory.forgotten:
            raise InvalidOption(
                f"{len(old)} files of {self.place} are older than those that are remembered, and"
                f" {self._memory.forgotten} such were read",
                why=f"One of them came later than late= allows, of {_names(old)}",
                fix="Give the late file a newer time (touch), or begin again with a larger late=",
                option="late",
                value=self._options.late_ns,
            )
        if len(old) < self._memory.forgotten and old:
            warnings.warn(
                f"of {self._memory.forgotten} old files of {self.place} that were read, some were removed, and the cursor does not say"
                f" which: those that are there are taken for read, though one may have come too late: {_names(old)}",
                LogWarning,
                stacklevel=2,
            )

    # -- one file --------------------------------------------------------------------------------------------------------

    def _file(self, path: str, done: int, begun: Mapping[str, Any] | None) -> Iterator[Piece[Position]]:
        """The rows of a file, `done` files after the first; of one that was begun those that are left."""
        seen, total = self._seen(path), self._memory.total
        if begun is not None and (seen.size, seen.modified_ns) != (begun["size"], begun["modified_ns"]):
            raise self._rewritten(seen, rows=begun["row"])
        skipped = 0 if begun is None else int(begun["row"])
        part = open_files([self._input(seen)], self._options.format, index=None, schema=self._expected)[0]
        before, row = None, 0
        for batch in self._fitted(part):
            rows = batch.slice(max(0, skipped - row))
            row += batch.num_rows
            if not rows.num_rows:
                continue
            if before is not None:
                yield before
            before = Piece(rows=rows, after=partial(_within, seen, done, total, row - rows.num_rows))
        if self._seen(path) != seen:
            raise self._rewritten(seen, rows=row)
        if row < skipped:
            raise self._rewritten(seen, rows=skipped)
        # The last rows of a file and that it is read are one step: nobody needs the file any more.
        self._memory.add(seen)
        rows = pa.RecordBatch.from_pylist([], schema=self._schema or pa.schema([])) if before is None else before.rows
        yield Piece(rows=rows, after=partial(_past, seen, done, total, before, rows.num_rows))

    def _seen(self, path: str) -> SeenFile:
        return self._state_of(self._env.store.head(path))

    def _state_of(self, info: ObjectInfo) -> SeenFile:
        # Listings of buckets give finer times than what is asked of one object.
        coarse = info.modified_ns % _NS_PER_S if self._env.store.capabilities.concurrent else 0
        return SeenFile(path=info.path, size=info.size, modified_ns=info.modified_ns - coarse)

    def _input(self, seen: SeenFile) -> InputFile:
        """The file on this machine: as it is, or a copy of an object."""
        local, name = self._env.store.local_path(seen.path), f"{self._env.store.url}/{seen.path}"
        if local is not None:
            return InputFile(path=Path(local), name=name)
        copy = NamedTemporaryFile(prefix="gapless-input-", suffix=f"-{os.path.basename(seen.path)[-60:]}")  # noqa: SIM115, PTH119 - it lives as long as what is returned
        for start in range(0, seen.size, _COPIED_BYTES):
            copy.write(self._env.store.get(seen.path, start, min(_COPIED_BYTES, seen.size - start)))
        copy.flush()
        return InputFile(path=Path(copy.name), name=name, held=copy)

    def _rewritten(self, seen: SeenFile, rows: int | None = None) -> ObjectChanged:
        known = self._memory.known(seen.path)
        was = "" if known is None else f", when it had {known.size} bytes of {datetime_from_ns(known.modified_ns).isoformat()}"
        read = f"{rows} rows of it were read" if rows is not None else f"it was read{was}"
        return ObjectChanged(
            f"{seen.path!r} in {self._env.store.url} was rewritten: {read}",
            why="Its rows would be in the sink twice, or half old and half new",
            fix="Write each file once: under another name, then rename it into place. Bring the old one back, or pass on_rewrite='skip'"
            if rows is None
            else "Bring the old one back, or begin again in a higher generation. A writer renames a file into place once it is whole",
            path=seen.path,
        )


def _names(files: list[SeenFile]) -> str:
    """The paths of the newest, for a message."""
    shown = [repr(one.path) for one in sorted(files)[-_NAMES_SHOWN:]]
    return f"{len(files) - len(shown)} and " * (len(files) > len(shown)) + ", ".join(shown)


def _within(seen: SeenFile, done: int, total: int, first: int, rows: int) -> Position:
    """In the file, `rows` after its row `first`; `total` files are remembered."""
    current = {"path": seen.path, "size": seen.size, "modified_ns": seen.modified_ns, "row": first + rows}
    time = datetime_from_ns(seen.modified_ns)
    return Position(state={"read": total, "current": current}, files_processed=done, timestamp=time)


def _past(seen: SeenFile, done: int, total: int, last: Piece[Position] | None, count: int, rows: int) -> Position:
    """Behind the file after all `count` of its last rows, else within it."""
    if last is not None and rows < count:
        return last.after(rows)
    time = datetime_from_ns(seen.modified_ns)
    return Position(state={"read": total + 1, "current": None}, files_processed=done + 1, timestamp=time)


def open_file_source(
    location: str,
    *,
    schema: pa.Schema | None = None,
    format: object = None,  # noqa: A002 - as everywhere
    start: object = None,
    min_age: timedelta | str = timedelta(0),
    late: timedelta | str | None = None,
    on_rewrite: OnRewrite = "error",
    storage_options: Mapping[str, str] | None = None,
) -> FileSource:
    """A source of the files that a pattern names, such as "landing/*.parquet" or "s3://bucket/in/**/*.csv".

    Args:
        location: A path or URL whose end has `*`, `?`, `[…]` or `**`. What begins with `.` or `_` is never a data file.
        schema: The columns; without it those of the first file, or of each with on_schema_change="evolve".
        format: A `gl.Csv`, `gl.Json` or `gl.Parquet`, or the name of one; without it each file's suffix says it.
        start: None or "earliest" for all files, "latest" for those that come from now on, or a time with its zone, also as an ISO text: those modified from then on.
        min_age: A file is read only when it was last modified so long ago, by this machine's clock: "5 minutes", or a timedelta.
        late: How much older than the newest file that was read a file may be when it comes: "3 days", or a timedelta. One that comes
            later is an error that names it. Of those that are older and were read the cursor keeps eight bytes each, as long as they
            are there; without it, path, size and time of every file.
        on_rewrite: What is done about a file that was read and then changed: "error", or "skip" the change.
        storage_options: Options of the object store, in obstore's names.

    Raises InvalidOption, InvalidPath, UnsupportedType.
    """
    root, pattern = split_pattern(location)
    options = FileOptions(
        pattern=pattern,
        format=parse_format(format),
        start=_parse_start(start),
        min_age_ns=_ns(parse_duration(min_age, "min_age")),
        late_ns=None if late is None else _ns(parse_duration(late, "late")),
        on_rewrite=one_of("on_rewrite", on_rewrite, ON_REWRITE),
    )
    return FileSource(Environment(store=open_store(root, storage_options)), options, schema)


def _parse_start(start: object) -> Literal["earliest", "latest"] | int:
    if start is None or start == "earliest":
        return "earliest"
    if start == "latest":
        return "latest"
    if (time_ns := start_time(start)) is not None:
        return time_ns
    raise InvalidOption(
        f"start={start!r} is no place among files",
        why="A source of files begins with all of them, with those to come, or with those modified from a time on",
        fix='Pass "earliest", "latest", or a time such as "2026-01-05T00:00:00Z"',
        option="start",
        value=start,
    )


def _ns(length: timedelta) -> int:
    return length // timedelta(microseconds=1) * _NS_PER_US
