"""A command that is run for a gap and writes the rows of it to stdout."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import pyarrow as pa

from gapless.cli.answers import Shown
from gapless.errors import InvalidOption, UnreadableInput, nearest
from gapless.model.formats import Format, parse_format
from gapless.model.index import Identity
from gapless.parquet.files import open_file

_TAIL = 300
"""Characters of stderr that an error repeats, the last ones."""


@dataclass(frozen=True, slots=True)
class GapCommand:
    """What `--command` says, to be called as `fetch` is."""

    words: tuple[str, ...]
    format: Format
    shown: Shown

    @classmethod
    def parse(cls, text: str, format_name: str, shown: Shown) -> GapCommand:
        """Read a command as a shell splits it; nothing in it is left to a shell, and nothing of a gap's values is split.

        Raises InvalidOption where it cannot be split, names a placeholder that is none, names neither start nor end, or is no program.
        """
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise _refuse(text, f"Its quotes do not match: {error}", "Close them") from error
        file_format = parse_format(format_name)
        assert file_format is not None
        found = cls(words, file_format, shown)
        known = (*shown.table.entity, "start", "end")
        filled = found._filled({name: f"\0{name}\0" for name in known}, text)
        if not any(f"\0{name}\0" in word for name in ("start", "end") for word in filled):
            raise _refuse(text, "It would fetch the same for every gap", "Use {start} and {end} in it")
        if shutil.which(words[0]) is None:
            raise _refuse(text, f"{words[0]!r} is no program on the PATH", "Check its name, or write its whole path")
        return found

    def __call__(self, identity: Identity, start: object, end: object) -> pa.Table | None:
        """Run it; returns what it wrote as a table, None where it wrote nothing. Raises UnreadableInput where it fails."""
        values = self.shown.identity(identity) | {"start": self.shown.time(start), "end": self.shown.time(end)}
        words = self._filled({name: str(value) for name, value in values.items()}, shlex.join(self.words))
        with TemporaryDirectory(prefix="gapless-fill-") as folder:
            output = Path(folder) / "stdout"
            with output.open("wb") as file:
                _run(words, file)
            if not output.stat().st_size:
                return None
            rows = open_file(output, self.format, index=self.shown.table.index, schema=self.shown.table.schema)
            return pa.Table.from_batches(list(rows), rows.schema)

    def _filled(self, values: Mapping[str, str], text: str) -> list[str]:
        try:
            return [word.format_map(values) for word in self.words]
        except KeyError as error:
            raise _refuse(text, f"{{{error.args[0]}}} stands for nothing", nearest(str(error.args[0]), values)) from None
        except (ValueError, IndexError, AttributeError) as error:
            raise _refuse(text, f"Its braces cannot be read: {error}", "Write {{ and }} for braces that are meant") from None


def _run(words: list[str], output: BinaryIO) -> None:
    try:
        ended = subprocess.run(words, stdout=output, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)  # noqa: S603  # the user's own
    except OSError as error:
        raise _failed(words, str(error)) from error
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()[-_TAIL:]
        raise _failed(words, f"It ended with exit code {ended.returncode}" + (f": {said}" if said else ""))


def _failed(words: list[str], why: str) -> UnreadableInput:
    shown = shlex.join(words)
    return UnreadableInput(f"the command {shown} failed", why=why, fix="Run it by hand to see what it says", source=shown)


def _refuse(text: str, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"--command {text!r} cannot be run", why=why, fix=fix, option="command", value=text)
