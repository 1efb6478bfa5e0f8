"""Parquet files that are to become files of a table as they are, as a caller names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gapless.errors import InvalidOption
from gapless.files.adopt.copy_or_link import Adopt, check_movable
from gapless.files.adopt.source import Source
from gapless.files.ingest.files import format_of
from gapless.files.ingest.input_file import InputFile, is_stream
from gapless.model.input_formats import Parquet, parse_format


def open_sources(files: Sequence[Path | InputFile], file_format: object, how: Adopt) -> list[Source]:
    """The files that are to become segments; raises InvalidOption for one that is no Parquet, UnreadableInput, InvalidPath."""
    given = parse_format(file_format)
    paths = [_on_disk(file, how) for file in files]
    for path in paths:
        if not isinstance(format_of(path, given), Parquet):
            raise InvalidOption(
                f"{path} cannot be adopted",
                why="Segments are Parquet files, and adopt takes a file as it is",
                fix="Append it without adopt: its rows are then read and written",
                option="adopt",
                value=how,
            )
        if how == "move":
            check_movable(path)
    return [Source.open(path) for path in paths]


def _on_disk(file: Path | InputFile, how: Adopt) -> Path:
    if isinstance(file, Path) and not is_stream(file):
        return file
    raise InvalidOption(
        f"{file} cannot be adopted",
        why="A file is adopted as it lies on a disk, and this one comes through a pipe",
        fix="Append it without adopt, or name its file",
        option="adopt",
        value=how,
    )
