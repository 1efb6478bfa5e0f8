"""`fill`: fill gaps with the rows that a command writes to stdout, run once for each gap."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, BinaryIO

import pyarrow as pa
import typer

from gapless.cli.coverage import FOUND_GAPS, ExpectedCoverage
from gapless.cli.options import JsonFlag, TableRef, UpgradeFlag, flag, option
from gapless.cli.show.console import Plain, print_line, print_table, write_json
from gapless.cli.show.coverage import IndexFormat
from gapless.cli.show.rows import row_progress
from gapless.errors import InvalidOption, UnreadableInput, nearest
from gapless.files.ingest.files import open_file
from gapless.model.index import Identity
from gapless.model.input_formats import Format, parse_format
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.write.fill import FillReport

_TAIL = 300
"""Characters of stderr that an error repeats, the last ones."""


@dataclass(frozen=True, slots=True)
class GapCommand:
    """What `--command` says, to be called as `fetch` is."""

    words: tuple[str, ...]
    format: Format
    index_format: IndexFormat

    @classmethod
    def parse(cls, text: str, format_name: str, index_format: IndexFormat) -> GapCommand:
        """Read a command as a shell splits it; nothing in it is left to a shell, and nothing of a gap's values is split.

        Raises InvalidOption where it cannot be split, names a placeholder that is none, names neither start nor end, or is no program.
        """
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise _refuse(text, f"Its quotes do not match: {error}", "Close them") from error
        file_format = parse_format(format_name)
        assert file_format is not None
        found = cls(words, file_format, index_format)
        known = (*index_format.table.entity, "start", "end")
        filled = found._filled({name: f"\0{name}\0" for name in known}, text)
        if not any(f"\0{name}\0" in word for name in ("start", "end") for word in filled):
            raise _refuse(text, "It would fetch the same for every gap", "Use {start} and {end} in it")
        if shutil.which(words[0]) is None:
            raise _refuse(text, f"{words[0]!r} is no program on the PATH", "Check its name, or write its whole path")
        return found

    def __call__(self, identity: Identity, start: object, end: object) -> pa.Table | None:
        """Run it; returns what it wrote as a table, None where it wrote nothing. Raises UnreadableInput where it fails."""
        values = self.index_format.identity(identity) | {
            "start": self.index_format.time(start),
            "end": self.index_format.time(end),
        }
        words = self._filled({name: str(value) for name, value in values.items()}, shlex.join(self.words))
        with TemporaryDirectory(prefix="gapless-fill-") as folder:
            output = Path(folder) / "stdout"
            with output.open("wb") as file:
                _run(words, file)
            if not output.stat().st_size:
                return None
            rows = open_file(output, self.format, index=self.index_format.table.index, schema=self.index_format.table.schema)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """Which command is run for the gaps, and how."""

    command: Annotated[
        str,
        option(
            "COMMAND", "Run for each gap: {start}, {end} and {COLUMN} of each entity column stand for its values; no shell."
        ),
    ]
    format_: Annotated[
        str, option("NAME", "What the command writes to stdout: csv (the default), jsonl or parquet.", "--format")
    ] = "csv"
    max_buckets: Annotated[int | None, option("N", "Ask for longer gaps in parts of so many buckets.", least=1)] = None
    workers: Annotated[int, option("N", "How many commands may run at once.", least=1)] = 1
    keep_going: Annotated[bool, flag("--keep-going", "Go on with the next gap where the command fails.")] = False


def fill(
    table: TableRef,
    expected: ExpectedCoverage,
    run: CommandOptions,
    fail_if_any: Annotated[
        bool, flag("--fail-if-any", "Exit with 3 where something is still missing, for a cron job.")
    ] = False,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Fill gaps: run a command for each one, and append what it writes to stdout.

    Times are given as `gapless gaps` prints them; the end is just past the gap. Entity columns may be left out of the answer, and an
    empty one means that nothing is there. What came stays, so that calling again asks for exactly what is still missing.

    Example: gapless fill prices --until now --command 'fetch-bars {symbol} --from {start} --to {end}'
    """
    opened = table.open_series(upgrade=upgrade)
    format_ = IndexFormat(table=opened)
    with row_progress(f"filling {opened.name}", noun="gaps") as done:
        report = opened.fill(
            GapCommand.parse(run.command, run.format_, format_),
            **expected.arguments(opened),
            max_buckets=run.max_buckets,
            max_workers=run.workers,
            progress=done,
            on_error="continue" if run.keep_going else "raise",
        )
    if json:
        write_json(fill_document(format_, report))
    else:
        if report.failed:
            rows = [[*format_.gap_row(failed.gap), failed.reason] for failed in report.failed]
            print_table((*opened.entity, "start", "end", "buckets", "failed"), rows)
        print_line(fill_text(report))
    if report.failed:
        raise typer.Exit(1)
    if fail_if_any and report.missing:
        raise typer.Exit(FOUND_GAPS)


def fill_document(format_: IndexFormat, report: FillReport) -> dict[str, Plain]:
    """What `fill --json` prints."""
    return {
        "version": report.version,
        "asked": report.asked,
        "rows": report.rows,
        "skipped_rows": report.skipped_rows,
        "filled_buckets": report.filled_buckets,
        "missing_buckets": report.missing_buckets,
        "missing": [format_.range_document(gap) for gap in report.missing],
        "empty": [format_.range_document(gap) for gap in report.empty],
        "failed": [{**(format_.range_document(one.gap) or {}), "reason": one.reason} for one in report.failed],
    }


def fill_text(report: FillReport) -> str:
    """What a fill did, in a few sentences."""
    if not report.asked:
        return "Nothing is missing, so nothing was asked for."
    asked = f"Asked for {count(report.asked, 'gap')}: {count(report.rows, 'row')} came and filled {count(report.filled_buckets, 'bucket')}."
    empty = f" Nothing came for {count(len(report.empty), 'gap')}." if report.empty else ""
    failed = f" {count(len(report.failed), 'gap')} failed." if report.failed else ""
    skipped = f" Left out: {count(report.skipped_rows, 'row')} of covered buckets." if report.skipped_rows else ""
    still = f"Still missing: {count(report.missing_buckets, 'bucket')} in {count(len(report.missing), 'gap')}."
    return f"{asked}{skipped}{empty}{failed} {still if report.missing else 'Nothing is missing any more.'}"
