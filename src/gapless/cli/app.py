"""The command `gapless`: its commands, and how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from gapless._version import __version__
from gapless.cli.show.failure import CLOSED_PIPE, INTERRUPTED, interrupted, print_failure, report

COMMANDS = {
    "create": ("gapless.cli.write", "Make an empty table; its columns come with the first append."),
    "append": ("gapless.cli.write", "Append files as one commit: all of their rows, or none."),
    "upsert": ("gapless.cli.correct", "Put rows in the place of those with their key, or add them, as one commit."),
    "replace": (
        "gapless.cli.correct",
        "Put the rows of files in the place of all rows of a range, as one commit; rows outside it are refused.",
    ),
    "delete": ("gapless.cli.correct", "Delete the rows that `scan` with the same options shows, as one commit."),
    "drop-before": (
        "gapless.cli.correct",
        "Delete all rows before a time; segments that end before it fall away without being read.",
    ),
    "alter": (
        "gapless.cli.alter",
        "Change the columns: add, widen, rename, drop, reorder or comment; segments stay as they are.",
    ),
    "scan": (
        "gapless.cli.read",
        "Read rows: a range of the index, a condition, some columns. Of a Delta table: by --where and --columns.",
    ),
    "sql": ("gapless.cli.read", "Answer a SQL query over a table of either kind."),
    "coverage": ("gapless.cli.cover", "Draw what the table covers, as a heat map."),
    "gaps": ("gapless.cli.cover", "List the stretches of time that are missing."),
    "fill": ("gapless.cli.fill", "Ask a command for each gap, and append what it writes to stdout."),
    "info": (
        "gapless.cli.about",
        "Say what the table is: its index or its partitions, its size, its ends. It may be of either kind.",
    ),
    "history": ("gapless.cli.about", "List the commits of a table of either kind, oldest first."),
    "log": (
        "gapless.cli.travel",
        "List the commits of a table of either kind, newest first: what each did, with which parameters, and how long it took.",
    ),
    "at": (
        "gapless.cli.travel",
        "Read a table of either kind as it was at a version, a time or a tag; rows as `scan` gives them, or an answer as `sql` does.",
    ),
    "changes": (
        "gapless.cli.travel",
        "Tell what commits did to the rows: inserts, deletes, and updates with the rows before and after.",
    ),
    "restore": (
        "gapless.cli.travel",
        "Make rows, columns and properties of a table of either kind those of an earlier version again, as a new commit; no version is lost.",
    ),
    "tag": ("gapless.cli.travel", "Name a version, which `expire` and `vacuum` then keep; list the names, or take one away."),
    "schema": ("gapless.cli.about", "List the columns of a table of either kind, their types and their roles."),
    "compact": ("gapless.cli.compact", "Write small segments together as larger ones, sorted; the rows stay the same."),
    "verify": ("gapless.cli.care", "Look for damage: in the log, in every segment's bytes, in the coverage."),
    "repair": ("gapless.cli.care", "Mend what can be mended: hints, log checkpoints, coverage; lost commits."),
    "vacuum": (
        "gapless.cli.upkeep",
        "Delete files that no version needs which is kept; without --apply only say which those are.",
    ),
    "expire": (
        "gapless.cli.upkeep",
        "Let go of old versions: they can be read no longer, and `gapless vacuum` frees what only they had.",
    ),
    "demo": (
        "gapless.cli.demo.demo",
        "Run the main job on real data: a year of hourly weather, and one of flights through Spark.",
    ),
}
"""Where each command is, and the first sentence of its help. A module is imported when its command is called: Arrow alone takes
longer to import than a list of commands should take to appear."""
DELTA_COMMANDS = {
    "create": ("gapless.cli.delta_write", "Make an empty Delta table."),
    "append": (
        "gapless.cli.delta_write",
        "Append files as one commit: all of their rows, or none. Columns are matched by name.",
    ),
    "overwrite": (
        "gapless.cli.delta_write",
        "Put the rows of files in the place of the table's: of all, of those that --where names, or of whole partitions.",
    ),
    "delete": ("gapless.cli.delta_rows", "Delete rows, as one commit. Files that hold none of them stay as they are."),
    "update": ("gapless.cli.delta_rows", "Give columns of some rows other values, as one commit."),
    "merge": (
        "gapless.cli.delta_rows",
        "Bring the rows of files into the table by a condition, as one commit: update, delete, insert.",
    ),
    "dedup": ("gapless.cli.delta_rows", "Leave one row of each key, as one commit."),
    "compact": ("gapless.cli.delta_care", "Write small files together as larger ones (what Spark calls OPTIMIZE)."),
    "zorder": ("gapless.cli.delta_care", "Lay rows that are alike in several columns together (OPTIMIZE … ZORDER BY)."),
    "vacuum": (
        "gapless.cli.delta_care",
        "Delete files that no version needs which is kept; without --apply only say which those are.",
    ),
    "restore": (
        "gapless.cli.delta_care",
        "Make rows, columns and properties those of an earlier version again, as a new commit.",
    ),
    "checkpoint": ("gapless.cli.delta_care", "Write a log checkpoint, and with --clean-log let go of the log before it."),
    "changes": ("gapless.cli.delta_care", "Tell what commits did to the rows: the change data feed."),
    "alter": ("gapless.cli.alter:delta_alter", "Change columns, properties and constraints; data files stay as they are."),
}
"""The same of the commands after `gapless delta`; what both kinds of tables can do is among `COMMANDS`."""
OF_EITHER_KIND = ("info", "schema", "scan", "sql", "history", "log", "at", "verify")
"""Commands that `gapless delta` has too, unlisted: whoever writes them there means the same."""
_EXIT_CODES = "Exit codes: 0 fine, 1 failed or damage found, 2 what was typed is wrong, 3 gaps found, 4 overlap refused, 5 commit outcome unknown."
DELTA_HELP = (
    "Make and change Delta tables. What both kinds can do has no `delta` before it: info, scan, sql, history, verify and so on."
)
_SETTINGS = {"help_option_names": ["-h", "--help"]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; `arguments` are those of the process where not given."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # while an error was being told
        code = INTERRUPTED
    if code == INTERRUPTED:
        # At once: a thread may still be deep in a query, and whoever reads stdout may never read on.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and say what went wrong; returns the exit code."""
    try:
        code = call(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
        return CLOSED_PIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last stop: each becomes a block on stderr
        return report(error)
    if code == INTERRUPTED:  # typer turns Ctrl-C into this code
        print_failure(interrupted())
    return code


def call(arguments: Sequence[str]) -> int:
    """Run one command in this process; returns its exit code and raises what it raises."""
    app = _app({*arguments, *os.environ.get("COMP_WORDS", "").split(), *os.environ.get("_TYPER_COMPLETE_ARGS", "").split()})
    try:
        code: Any = typer.main.get_command(app).main(list(arguments), prog_name="gapless", standalone_mode=False)
    except SystemExit as end:  # typer's end where a pipe was closed; it has no other in this mode
        raise BrokenPipeError from end
    return code if isinstance(code, int) else 0


def _app(words: set[str]) -> typer.Typer:
    """The application; only commands that are among the words are really there, the others can but be listed."""
    app = typer.Typer(name="gapless", epilog=_EXIT_CODES, rich_markup_mode="rich", context_settings=_SETTINGS)
    app.callback(invoke_without_command=True)(_gapless)
    _add_commands(app, COMMANDS, words)
    group = typer.Typer(context_settings=_SETTINGS, help=DELTA_HELP)
    group.callback(invoke_without_command=True)(_group)
    _add_commands(group, DELTA_COMMANDS, words if "delta" in words else set())
    _add_commands(group, {name: COMMANDS[name] for name in OF_EITHER_KIND}, words if "delta" in words else set(), hidden=True)
    app.add_typer(group, name="delta")
    return app


def _add_commands(app: typer.Typer, commands: Mapping[str, tuple[str, str]], words: set[str], *, hidden: bool = False) -> None:
    for name, (module, summary) in commands.items():
        if name in words:
            app.command(name, hidden=hidden)(load_command(module, name))
        else:
            app.command(name, help=summary, hidden=hidden)(_listed_only)


def load_command(module: str, name: str) -> Callable[..., None]:
    """The function behind a command: `module:function`, or the one with the command's name (a dash is an underscore in Python)."""
    module, _, function = module.partition(":")
    found: Callable[..., None] = getattr(import_module(module), function or name.replace("-", "_"))
    return found


def _listed_only() -> None:
    raise AssertionError("a command was called that was not among the words")


def _gapless(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Tables of time-stamped records that know which stretches of time they are missing."""
    if version:
        sys.stdout.write(f"gapless {__version__}\n")
        raise typer.Exit
    _group(context)


def _group(context: typer.Context) -> None:
    """Say what there is, where no command was given."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def _let_go_of_stdout() -> None:
    """Whoever read stdout has gone; let nothing complain about it when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
