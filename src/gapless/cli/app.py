"""The command `gapless`: its commands, and how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gapless._version import __version__
from gapless.cli.about import history, info, schema
from gapless.cli.cover import coverage, gaps
from gapless.cli.demo import demo
from gapless.cli.failure import CLOSED_PIPE, INTERRUPTED, interrupted, print_failure, report
from gapless.cli.read import scan, sql
from gapless.cli.write import append, create

app = typer.Typer(
    name="gapless",
    help="Tables of time-stamped records that know which stretches of time they are missing.",
    epilog="Exit codes: 0 fine, 1 failed, 2 what was typed is wrong, 3 gaps found (gaps --fail-if-any), 4 overlap refused, 5 commit outcome unknown.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (create, append, scan, sql, coverage, gaps, info, history, schema, demo):
    app.command()(command)


@app.callback(invoke_without_command=True)
def gapless(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the version, or the help where no command is given."""
    if version:
        sys.stdout.write(f"gapless {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; `arguments` are those of the process where not given."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:] if arguments is None else arguments)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and say what went wrong; returns the exit code."""
    try:
        code = typer.main.get_command(app).main(list(arguments), prog_name="gapless", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
        return CLOSED_PIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last stop: each becomes a block on stderr
        return report(error)
    if code == INTERRUPTED:  # typer turns Ctrl-C into this code
        print_failure(interrupted())
    return code if isinstance(code, int) else 0


def _let_go_of_stdout() -> None:
    """Whoever read stdout has gone; let nothing complain about it when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
