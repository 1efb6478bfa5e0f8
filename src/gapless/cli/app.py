"""The command `gapless`: its commands, and how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from gapless._version import __version__
from gapless.cli.show.failure import CLOSED_PIPE, INTERRUPTED, interruption, print_error, print_failure
from gapless.cli.show.streams import check_stdout, discard, flush_or_discard, take_closed_streams

COMMANDS = {
    "create": ("gapless.cli.write", "Create an empty time-series table; its columns come with the first append."),
    "append": ("gapless.cli.write", "Append files as one commit: all of their rows, or none."),
    "upsert": ("gapless.cli.rows", "Upsert rows by their key: replace those that are there and add the others, as one commit."),
    "replace": (
        "gapless.cli.rows",
        "Replace all rows of a range by the rows of files, as one commit; rows outside it are refused.",
    ),
    "delete": ("gapless.cli.rows", "Delete the rows that `scan` with the same options shows, as one commit."),
    "drop-before": (
        "gapless.cli.rows",
        "Delete all rows before a time; segments that end before it are removed without being read.",
    ),
    "alter": (
        "gapless.cli.alter",
        "Alter the schema: add, widen, rename, drop, reorder or comment columns; data files are not rewritten.",
    ),
    "scan": (
        "gapless.cli.read",
        "Read rows: a range of the index, a condition, some columns. Of a Delta table: by --where, --columns and --exclude.",
    ),
    "sql": ("gapless.cli.read", "Run a SQL query over a table of either kind."),
    "coverage": ("gapless.cli.coverage", "Draw what the table covers, as a heat map."),
    "gaps": ("gapless.cli.coverage", "List the gaps: the stretches of time that are missing."),
    "fill": ("gapless.cli.fill", "Fill gaps: run a command for each one, and append what it writes to stdout."),
    "info": (
        "gapless.cli.about",
        "Describe a table of either kind: its index or its partitions, its size, its properties.",
    ),
    "history": ("gapless.cli.about", "List the commits of a table of either kind, oldest first."),
    "log": (
        "gapless.cli.about",
        "List the commits of a table of either kind, newest first, with parameters, sizes and durations.",
    ),
    "at": (
        "gapless.cli.versions",
        "Read a table of either kind as it was at a version, a time or a tag; rows as `scan` gives them, or an answer as `sql` does.",
    ),
    "changes": (
        "gapless.cli.versions",
        "Read the change data feed: inserts, deletes, and updates with the rows before and after.",
    ),
    "restore": (
        "gapless.cli.versions",
        "Restore rows, columns and properties of an earlier version, as a new commit; no version is lost.",
    ),
    "tag": ("gapless.cli.versions", "Tag a version, which `expire` and `vacuum` then keep; list the tags, or delete one."),
    "schema": ("gapless.cli.about", "List the columns of a table of either kind, their types and their roles."),
    "compact": ("gapless.cli.maintain", "Compact small segments into larger ones, sorted; the rows stay the same."),
    "publish": (
        "gapless.cli.publish",
        "Publish a table: describe the same files to readers of another format, without a copy.",
    ),
    "verify": ("gapless.cli.verify", "Check a table for damage: the log, every file's bytes, the coverage."),
    "repair": ("gapless.cli.verify", "Repair what can be repaired: hints, log checkpoints, coverage; lost commits."),
    "vacuum": (
        "gapless.cli.maintain",
        "Delete files that no retained version references; without --apply only list them.",
    ),
    "expire": (
        "gapless.cli.maintain",
        "Expire old versions: they can no longer be read, and `gapless vacuum` deletes the files that only they had.",
    ),
    "maintain": (
        "gapless.cli.schedule",
        "Look after a table on a schedule, beside whoever writes to it, until Ctrl-C: compaction, expiry, vacuum.",
    ),
    "connect": (
        "gapless.cli.connect",
        "Copy rows of a table, or of another source, into a table: each once, whatever is killed; run again, it goes on.",
    ),
    "run": (
        "gapless.cli.pipelines",
        "Run a pipeline: fill its sinks with all that its sources have, each row once, whatever is killed; run again, it goes on.",
    ),
    "pipelines": ("gapless.cli.pipelines", "Show how pipelines stand, stop one, restart one, or have one begin anew."),
    "doctor": (
        "gapless.cli.doctor",
        "Say what is missing on this machine to run pipelines, and how to get it: Java, Spark, its packages, extras, servers, ports.",
    ),
    "import": (
        "gapless.cli.transfer:import_",
        "Import a table of another format: its files are taken as they are where they fit, and the source stays as it is.",
    ),
    "export": (
        "gapless.cli.transfer",
        "Export a version of a table of either kind as a plain copy, which others read without gapless.",
    ),
    "demo": (
        "gapless.cli.demo.demo",
        "Run the main job on real data: a year of hourly weather, and one of flights through Spark.",
    ),
}
"""Where each command is, and the first sentence of its help. A module is imported when its command is called: Arrow alone takes
longer to import than a list of commands should take to appear."""
DELTA_COMMANDS = {
    "create": ("gapless.cli.write:delta_create", "Create an empty Delta table."),
    "append": (
        "gapless.cli.write:delta_append",
        "Append files as one commit: all of their rows, or none. Columns are matched by name.",
    ),
    "overwrite": (
        "gapless.cli.write",
        "Overwrite the table with the rows of files, as one commit: all rows, those that --where names, or whole partitions.",
    ),
    "delete": (
        "gapless.cli.rows:delta_delete",
        "Delete rows, as one commit. Files that hold none of them stay as they are.",
    ),
    "update": ("gapless.cli.rows", "Update columns of the rows that a condition names, as one commit."),
    "merge": (
        "gapless.cli.rows",
        "Merge the rows of files into the table by a condition, as one commit: update, delete, insert (MERGE INTO).",
    ),
    "dedup": ("gapless.cli.rows", "Delete duplicate rows, as one commit: of each key one row stays."),
    "compact": ("gapless.cli.maintain:delta_compact", "Compact small files into larger ones (OPTIMIZE)."),
    "zorder": ("gapless.cli.maintain", "Cluster rows by several columns (OPTIMIZE … ZORDER BY)."),
    "vacuum": (
        "gapless.cli.maintain:delta_vacuum",
        "Delete files that no retained version references (VACUUM); without --apply only list them.",
    ),
    "restore": (
        "gapless.cli.versions:delta_restore",
        "Restore rows, columns and properties of an earlier version, as a new commit.",
    ),
    "checkpoint": (
        "gapless.cli.maintain",
        "Write a log checkpoint; with --clean-log also delete the commits before it that have expired.",
    ),
    "changes": ("gapless.cli.versions:delta_changes", "Read the change data feed: what commits did to the rows."),
    "alter": (
        "gapless.cli.alter:delta_alter",
        "Alter columns, properties and constraints; data files are not rewritten.",
    ),
}
"""The same of the commands after `gapless delta`. Where `COMMANDS` has one of the same name, that one takes a Delta table too; the
others only a Delta table has, or they make one."""
OF_EITHER_KIND = ("info", "schema", "scan", "sql", "history", "log", "at", "verify")
"""Commands that `gapless delta` has too, unlisted: whoever writes them there means the same."""
ONLY_OF_DELTA = tuple(name for name in DELTA_COMMANDS if name not in COMMANDS)
"""Commands of `gapless delta` that are found without that word too, unlisted."""
LAKE_COMMANDS = {
    "init": ("gapless.cli.lake.commands", "Make a lake in a directory."),
    "run": (
        "gapless.cli.lake.commands",
        "Run pipelines of lake.toml, each once: what their sources have since the last run goes into their tables.",
    ),
    "schedule": (
        "gapless.cli.lake.commands",
        "Run the pipelines of lake.toml that have a schedule, each at its times and under its own lease, until Ctrl-C.",
    ),
    "query": ("gapless.cli.lake.commands", "Run a SQL query over the tables of a lake."),
    "mcp": (
        "gapless.cli.lake.mcp_server",
        "Serve a lake to agents by the Model Context Protocol on stdin and stdout, read-only: tools describe and query.",
    ),
    "tables": ("gapless.cli.lake.commands", "List the tables of a lake."),
    "runs": ("gapless.cli.lake.commands", "List the runs of a table that are not only in snapshots, oldest first."),
    "snapshot": ("gapless.cli.lake.commands", "List the snapshots of a table, oldest first."),
    "compact": ("gapless.cli.lake.commands", "Compact the runs of a table into a snapshot."),
    "export": (
        "gapless.cli.lake.commands",
        "Describe a snapshot of a table as a Delta or Iceberg table of the same files, in the table's folder.",
    ),
    "lineage": ("gapless.cli.lake.commands", "Show where files of a table come from: run, source, range of the cursor."),
    "doctor": (
        "gapless.cli.lake.commands",
        "Find what is not as the manifests of a lake say. The exit code is 1 where there is a problem.",
    ),
    "reconcile": ("gapless.cli.lake.sync", "Bring columns of a table together that two copies of a lake changed apart."),
    "sync push": (
        "gapless.cli.lake.sync:push",
        "Copy what another place of a lake lacks: a directory or a bucket, from which others pull.",
    ),
    "sync pull": (
        "gapless.cli.lake.sync:pull",
        "Copy what a lake lacks from another place of it; where there is no lake yet, make a replica.",
    ),
    "sync status": (
        "gapless.cli.lake.sync:status",
        "Show how a lake and another place of it stand. The exit code is 1 where a push or a pull would copy something, or cannot.",
    ),
}
"""The same of the commands after `gapless lake`."""
SYNC_HELP = "Copies of a lake in directories and buckets: push, pull, compare."
LAKE_HELP = "Many tables in one directory, filled by runs of its pipelines, read by DuckDB."
_EXIT_CODES = "Exit codes: 0 fine, 1 failed or damage found, 2 what was typed is wrong, 3 gaps found, 4 overlap refused, 5 commit outcome unknown."
DELTA_HELP = "Create and change Delta tables. The commands of `gapless` take a table of either kind; these take Delta tables only, and some are theirs alone."
_SETTINGS = {"help_option_names": ["-h", "--help"]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; `arguments` are those of the process where not given."""
    take_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # while an error was being printed
        code = INTERRUPTED
    if code == INTERRUPTED:
        # At once: a thread may still be deep in a query, and whoever reads stdout may never read on.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and print its error; returns the exit code."""
    try:
        check_stdout()
        code = call(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
        return CLOSED_PIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last stop: each becomes a block on stderr
        flush_or_discard(sys.stdout)
        return print_error(error)
    if code == INTERRUPTED:  # typer turns Ctrl-C into this code
        print_failure(interruption())
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
    _add_commands(app, {name: DELTA_COMMANDS[name] for name in ONLY_OF_DELTA}, words, hidden=True)
    group = typer.Typer(context_settings=_SETTINGS, help=DELTA_HELP)
    group.callback(invoke_without_command=True)(_group)
    _add_commands(group, DELTA_COMMANDS, words if "delta" in words else set())
    _add_commands(group, {name: COMMANDS[name] for name in OF_EITHER_KIND}, words if "delta" in words else set(), hidden=True)
    app.add_typer(group, name="delta")
    lake = typer.Typer(context_settings=_SETTINGS, help=LAKE_HELP)
    lake.callback(invoke_without_command=True)(_group)
    in_lake = words if "lake" in words else set()
    sync = {name.partition(" ")[2]: told for name, told in LAKE_COMMANDS.items() if " " in name}
    _add_commands(lake, {name: told for name, told in LAKE_COMMANDS.items() if " " not in name}, in_lake)
    copies = typer.Typer(context_settings=_SETTINGS, help=SYNC_HELP)
    copies.callback(invoke_without_command=True)(_group)
    _add_commands(copies, sync, in_lake if "sync" in words else set())
    lake.add_typer(copies, name="sync")
    app.add_typer(lake, name="lake")
    return app


def _add_commands(app: typer.Typer, commands: Mapping[str, tuple[str, str]], words: set[str], *, hidden: bool = False) -> None:
    for name, (module, summary) in commands.items():
        if name in words:
            app.command(name, hidden=hidden)(load_command(module, name))
        else:
            app.command(name, help=summary, hidden=hidden)(_listed_only)


def load_command(module: str, name: str) -> Callable[..., None]:
    """The command of `module:function`, or of the module's function with the command's name, as typer reads it."""
    module, _, function = module.partition(":")
    return with_options(getattr(import_module(module), function or name.replace("-", "_")))


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The function of a command with one parameter an option, as typer reads it: its dataclass parameters stand for their fields.

    Arguments come first, in their order, and options of the bucket last.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: [field.name for field in fields(hint)] for name, hint in hints.items() if is_dataclass(hint)}

    def run(**given: object) -> None:
        values = {name: hints[name](**{one: given.pop(one) for one in names}) for name, names in groups.items()}
        command(**values, **given)

    parameters = sorted(_parameters(command), key=_place)
    run.__doc__ = command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # `inspect` reads it
    return run


def _parameters(owner: Callable[..., object]) -> Iterator[Parameter]:
    """The parameters of a function or of a dataclass, with the fields of dataclasses in their place."""
    hints = get_type_hints(owner, include_extras=True)
    for parameter in signature(owner).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint):
            yield from _parameters(hint)  # type: ignore[arg-type]  # a class is called as a function is
        else:
            yield parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY)


def _place(parameter: Parameter) -> int:
    is_argument = any(isinstance(one, ArgumentInfo) for one in parameter.annotation.__metadata__)
    return 0 if is_argument else 2 if parameter.name == "storage_option" else 1


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
    """Print the help, where no command was given."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
