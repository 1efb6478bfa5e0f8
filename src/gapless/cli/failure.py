"""Errors as one block on stderr: what happened, why, what to do; and the exit code that goes with them."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass

import typer
from rich.padding import Padding
from rich.text import Text

from gapless.cli.console import stderr_console
from gapless.cli.wording import for_shell
from gapless.draw.label import printable
from gapless.errors import GaplessError

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
        case GaplessError():
            what, why, fix = (for_shell(text) for text in (error.what, error.why, error.fix))
            return Failure(code=error.code, what=what, why=why, fix=fix, exit_code=error.exit_code)
        case typer.TyperException():
            return _usage(error)
        case KeyboardInterrupt():
            return interrupted()
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


def interrupted() -> Failure:
    """The failure of a command that was stopped by Ctrl-C."""
    return Failure(
        code="interrupted",
        what="stopped by the keyboard",
        why="A change is one commit: it is there whole, or not at all",
        fix="Where one was under way, `gapless history PATH` shows whether it landed",
        exit_code=INTERRUPTED,
    )


def report(error: BaseException) -> int:
    """Print the block, and a traceback where GAPLESS_TRACEBACK is set; returns the exit code."""
    if os.environ.get(TRACEBACK, "") not in ("", "0"):
        stderr_console().print(Text("".join(traceback.format_exception(error)).rstrip()))
    failure = failure_of(error)
    print_failure(failure)
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


def _usage(error: typer.TyperException) -> Failure:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "gapless"
    message = error.format_message().strip()
    return Failure(
        code="usage",
        what=message[:1].lower() + message[1:],
        fix=f"`{command} --help` shows what it takes, with an example",
        exit_code=error.exit_code,
    )
