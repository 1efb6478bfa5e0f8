"""Errors on stderr: what happened, why, what to do, with Python's keywords as options; and their exit codes."""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.padding import Padding
from rich.text import Text

from gapless.cli.show.console import stderr_console
from gapless.cli.show.streams import discard
from gapless.draw.label import printable
from gapless.errors import GaplessError, InvalidPipeline, StorageFull

if TYPE_CHECKING:
    from typer import TyperException as _CallError
else:
    # Typer names it since 0.28; what it is was click's before 0.26, and its own copy of click's since.
    _CallError = typer.BadParameter.__mro__[2]


def _set_property(match: re.Match[str]) -> str:
    return f"`gapless delta alter PATH set {match[1]}={match[2] or 'true'}`"


_OPTIONS = (
    "on_overlap", "index_type", "timezone", "bucket", "index", "entity", "start", "end", "where", "order", "columns", "format",
    "timestamp_format", "timestamp_unit", "delimiter", "property", "window", "on_duplicate", "operation_id",
    "older_than", "mode", "key", "order_by", "on_change", "pipeline", "generation", "until",
)  # fmt: skip
_PHRASES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r'gl\.create\(path, index="ts", bucket="1h"\)', "`gapless create PATH --index ts --bucket 1h`"),
    (r"Open it with gl\.open\(path, upgrade=True\), or pass --upgrade", "Pass --upgrade"),
    (r"Use gl\.open\(path\), or another path", "Append to it, or create another path"),
    (
        r"Use gl\.delta\.open\(path\)(, or another path| or, for a time-series .*)",
        "Append to it with `gapless append` or `gapless delta append`, or create another path",
    ),
    (
        r'Pass create=\{\}(?: or partition_by=\["day\(ts\)"\])?, or make it (by Hudi|with the engine)',
        r"Pass --create, or make it \1",
    ),
    (r"Pass create=\{\}, or make it with gl\.delta\.create", "Pass --create, or make it with `gapless delta create`"),
    (r"Pass create=\{[^}]+\}, or make it with gl\.create", "Pass --create, or make it with `gapless create`"),
    (r'Make the sink with mode="cdc", or pass a transform', "Say --mode cdc too"),
    (r"a higher generation of the sink", "a higher --generation"),
    (r"gl\.delta\.create\(path, schema\)", "`gapless delta create`"),
    (
        r"Read it with gl\.connect\.source\('([^']*)'\), write it with gl\.connect\.sink, or take a copy with gl\.import_table",
        r"Copy rows out of it with `gapless connect \1 SINK`, or all of it with `gapless import`",
    ),
    (r"Open it with gl\.delta\.open\([^)]*\)", "`gapless delta --help` lists what Delta tables have"),
    (r"Open it with gl\.open\([^)]*\)", "`gapless --help` lists what time-series tables have"),
    (r"t(?:able)?\.alter\.set_properties\(\{['\"]([\w.]+)['\"]: (?:['\"](\w+)['\"]|True)\}\)", _set_property),
    (r"t(?:able)?\.alter\.unset_properties\(\['([\w.]+)'\]\)", r"`gapless delta alter PATH unset \1`"),
    (r"t(?:able)?\.alter\.drop_constraint\('([^']*)'\)", r"`gapless delta alter PATH drop-constraint \1`"),
    (r't(?:able)?\.alter\.add_constraint\("name", "expression"\)', "`gapless delta alter PATH add-constraint NAME SQL`"),
    (r"t(?:able)?\.update\(…\)", "`gapless delta update`"),
    (r"Write to that with gl\.open\(path\)", "Leave the word `delta` out"),
    (r'schema_mode="merge" adds new columns', "--add-columns adds new columns"),
    (r'pass schema_mode="merge" to', "pass --add-columns to"),
    (r'Pass schema_mode="merge", or replace', "Leave it out, or replace"),
    (r'schema_mode="overwrite"', "--new-columns"),
    (r'partitions="dynamic"', "--dynamic-partitions"),
    (r"pass enforce_retention=False", "`gapless delta vacuum --allow-short`"),
    (r'Pass where="([^"]*)"; delete\(where="true"\)', r'Say --where "\1"; --where true'),
    (r"\bvalues=(?=')", "--set "),
    (r"\bkeys=(?=['\"])", "--key "),
    (r"Pass version=3 or time=datetime\(2026, 1, 5, tzinfo=UTC\)", "Pass --version 3 or --time 2026-01-05T00:00Z"),
    (r"(\w+) table\.history\(\)", r"\1 `gapless history PATH`"),
    (r"table\.schema", "`gapless schema PATH`"),
    (r"se table\.sql", "se `gapless sql`"),
    (r"use where= for", "use `gapless scan --where` for"),
    (r"table\.append_file\(…\)", "`gapless append`"),
    (r"gl\.create\(…\)", "`gapless create`"),
    (r", or a Csv\(…\) or Json\(…\)", ""),
    (r"list it under nulls=, or state another type \(types=\)", "or name a text that means null with --null"),
    (r"\bnulls=", "--null"),
    (r"pass format=", "pass --format"),
    (r", or pass Csv\((columns=\[…\]|quote=None)\)( if that character means nothing)?", ""),
    (r", or state the type \(schema= at create, types= for CSV\)", ""),
    (r"gl\.Csv\((timestamp_\w+=[^)]*)\)", r"\1"),
    (r"(?<!_)\bin storage_options", "with --storage-option NAME=VALUE"),
    (r"\bstorage_options\b", "--storage-option"),
    (r"Pass start and end$", "Say both --start and --until"),
    (r"unique=True", "--property unique=true"),
    (
        r"Pass where=, start=, end= or entity=; delete\(where=\"true\"\)",
        "Say --where, --start, --end or --entity; --where true",
    ),
    (r'upsert\(…, on_duplicate="last"\)', "--on-duplicate last"),
    (r'table\.delete\(where="([^"]*)"\)', r"`gapless delete PATH --where '\1'`"),
    (r"gl\.(?:delta\.)?open_at\(path, version=(\d+)\)", r"`gapless at PATH --version \1`"),
    (
        r"Pass version=3, time=datetime\(2026, 1, 5, tzinfo=UTC\) or tag='name'",
        "Pass --version 3, --time 2026-01-05T00:00Z or --tag NAME",
    ),
    (r'Pass \("job-7", 42\) or "backfill-2026-01-05"', "Pass job-7:42 or backfill-2026-01-05"),
    (r", or an aware datetime", ""),
    (r"\bmove=True", "--move"),
    (r"\bpass tag=", "pass --tag"),
    (r"\bexpire\(\)", "`gapless expire`"),
    (r"\bkeep_versions=", "--keep-versions "),
    (r"\bolder_than=timedelta\(days=(\d+)\)", r"--older-than \1d"),
    (r"\bresort=True with cluster_by\b", "--resort with --cluster-by"),
)
_KEYWORD = re.compile(rf"(?<![\w.'\"-])({'|'.join(_OPTIONS)})=(?=[\"'\[\w…])")
_BARE = re.compile(r"(?<![\w'\"-])(timestamp_format|timestamp_unit|on_overlap|index_type)(?![\w=])")


def in_options(text: str) -> str:
    """A message with Python's keywords and calls as options and commands.

    >>> in_options('Pass on_overlap="skip" to keep what is there')
    'Pass --on-overlap "skip" to keep what is there'
    """
    for python, shell in _PHRASES:
        text = re.sub(python, shell, text)
    text = _KEYWORD.sub(lambda match: f"--{match[1].replace('_', '-')} ", text)
    return _BARE.sub(lambda match: f"--{match[1].replace('_', '-')}", text)


INTERRUPTED = 130
CLOSED_PIPE = 141
TRACEBACK = "GAPLESS_TRACEBACK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What the user is told."""

    code: str
    """Short and stable, for searching the documentation."""
    what: str
    why: str = ""
    fix: str = ""
    exit_code: int = 1


def failure_of(error: BaseException) -> Failure:
    """The failure that an error means."""
    match error:
        case InvalidPipeline():  # its words are those of the SQL
            what = f"{error.what}\n{error.excerpt}".rstrip()
            return Failure(code=error.code, what=what, why=error.why, fix=error.fix, exit_code=error.exit_code)
        case GaplessError():
            what, why, fix = (in_options(text) for text in (error.what, error.why, error.fix))
            return Failure(code=error.code, what=what, why=why, fix=fix, exit_code=error.exit_code)
        case _CallError():
            return _usage(error)
        case KeyboardInterrupt():
            return interruption()
        case OSError(errno=errno.ENOSPC | errno.EDQUOT) if error.filename is None:
            return Failure(
                code=StorageFull.code,
                what=f"what the command has to say cannot be written: {error.strerror}",
                why="Where stdout leads there is no room. A change that was made stands; only its report is lost",
                fix="Make room; `gapless history PATH` shows what was changed",
            )
        case OSError():
            return Failure(
                code="os-error", what=_os_text(error), fix=f"Set {TRACEBACK}=1 to see where, if that does not tell enough"
            )
        case MemoryError():
            return Failure(
                code="memory", what="there is not enough memory", fix="Ask for fewer rows or columns, or use --output or --csv"
            )
    return Failure(
        code="bug",
        what=f"gapless met something that it did not expect: {type(error).__name__}: {error}",
        why="This is most likely a bug in gapless, and not in what you typed",
        fix=f"Run it again with {TRACEBACK}=1 to see where, and report that text",
    )


def interruption() -> Failure:
    """The failure of a command that was stopped by Ctrl-C."""
    return Failure(
        code="interrupted",
        what="stopped by the keyboard",
        why="A change is one commit: it is there whole, or not at all",
        fix="Where one was under way, `gapless history PATH` shows whether it landed",
        exit_code=INTERRUPTED,
    )


def print_error(error: BaseException) -> int:
    """Print the block, and a traceback where GAPLESS_TRACEBACK is set; returns the exit code."""
    failure = failure_of(error)
    try:
        if os.environ.get(TRACEBACK, "") not in ("", "0"):
            stderr_console().print(Text("".join(traceback.format_exception(error)).rstrip()))
        print_failure(failure)
        sys.stderr.flush()
    except OSError:  # nobody can be told; the exit code still says it
        discard(sys.stderr)
    return failure.exit_code


def print_failure(failure: Failure) -> None:
    """Print the block to stderr."""
    console = stderr_console()
    console.print(Text.assemble(("Error ", "bold red"), (f"[{failure.code}]", "red"), (": ", "bold red"), _lines(failure.what)))
    for name, text in (("Why", failure.why), ("Fix", failure.fix)):
        if text:
            sentence = text if text.endswith((".", "?", "!", "…")) else text + "."
            console.print(Padding(Text.assemble((f"{name}: ", "bold"), _lines(sentence)), (0, 0, 0, 2), expand=False))


def _lines(text: str) -> str:
    """A message with its own line breaks, and no other control character."""
    return "\n".join(map(printable, text.splitlines()))


def _os_text(error: OSError) -> str:
    named = f"{error.filename!r}: " if error.filename is not None else ""
    return f"{named}{error.strerror or error}"


def _usage(error: _CallError) -> Failure:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "gapless"
    message = error.format_message().strip()
    return Failure(
        code="usage",
        what=message[:1].lower() + message[1:],
        fix=f"`{command} --help` shows what it takes, with an example",
        exit_code=error.exit_code,
    )
