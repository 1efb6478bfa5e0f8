"""Steps of the demo: a sentence, then a command, printed as it is typed and run in this process."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from gapless.cli.app import call
from gapless.cli.show.console import print_line, stdout_console
from gapless.cli.show.failure import failure_of, print_failure
from gapless.errors import CoverageOverlap


def print_step(text: str) -> None:
    """A sentence of the story, set apart from what came before."""
    console = stdout_console()
    console.print()
    console.print(Rule(style="dim") if console.is_terminal else Text("-" * 72))
    console.print(Text(text, style="bold"))


def print_command(line: str, python: str = "") -> None:
    """Show a command as it is typed, and the same in Python."""
    console = stdout_console()
    console.print()
    # A terminal breaks these lines itself, so that they copy as they are.
    console.print(Text.assemble(("$ ", "dim"), (line, "bold cyan")), soft_wrap=True)
    if python:
        console.print(Text("  Python: " + python, style="dim"), soft_wrap=True)
    sys.stdout.flush()


def print_code(code: str, language: str = "python") -> None:
    """Show lines of a program."""
    console = stdout_console()
    console.print()
    if console.is_terminal:
        console.print(Syntax(code.rstrip(), language, theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        console.print(Text(code.rstrip()), soft_wrap=True)


def run_command(*words: str | Path, python: str = "") -> None:
    """Show a command (and the same in Python) and run it in this process; raises what it raises."""
    print_command("gapless " + shlex.join(map(str, words)), python)
    call([str(word) for word in words])


def run_refused(*words: str | Path) -> None:
    """The same for a command that must be refused for an overlap: its error is shown as it would be, with its exit code."""
    try:
        run_command(*words)
    except CoverageOverlap as error:
        sys.stdout.flush()
        print_failure(failure_of(error))
        print_line((f"(exit code {error.exit_code})", "dim"))
    else:
        raise AssertionError("the table took the same month twice")
