#!/usr/bin/env python3
"""Write the pages that repeat what the code says: docs/errors.md, docs/reference/{cli,api,delta,metrics,publishing}.md and
docs/semantics/{,delta-}clashes.md.

Run `PYTHONPATH=src .venv/bin/python tools/reference_pages.py` after a change of a docstring, an error or an option. A test fails until then.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType

import typer

import gapless
from gapless import errors, spark
from gapless.cli.app import COMMANDS, DELTA_COMMANDS, LAKE_COMMANDS, load_command
from gapless.formats.delta import conflict as delta_clashes
from gapless.formats.timeseries.conflict.rules import describe
from gapless.pipelines.options.lookups import LOOKUPS
from gapless.pipelines.options.sinks import SINKS
from gapless.pipelines.options.sources import SOURCES
from gapless.pipelines.options.spec import OptionSpec, TypeSpec
from gapless.runtime.metrics import INSTRUMENTS, Instrument
from gapless.spark.correct.backfill import BACKFILL_DEFAULTS, BackfillOptions
from gapless.spark.reading.frame import READ_DEFAULTS, ReadOptions
from gapless.tables import delta
from gapless.tables.shared.export import EXPORT_DEFAULTS, ExportOptions
from gapless.tables.timeseries.lifecycle import INDEX_DEFAULTS, IndexOptions
from gapless.tables.timeseries.write.fill import FILL_DEFAULTS, FillOptions
from gapless.tables.transfer.import_table import IMPORT_DEFAULTS, ImportOptions
from gapless.testing.published_delta_features import delta_features_page
from gapless.testing.published_features import features_page

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Made by tools/reference_pages.py from the code. Change the code, then run it. -->\n"

WHAT_TO_DO = {
    "GaplessError": "Catch it to catch everything that gapless raises.",
    "CallError": "Fix the call. Nothing was done.",
    "InvalidOption": "Correct the argument that `option` names; the message lists or guesses what was meant.",
    "UnknownColumn": "Use one of the names in `columns`. A name is matched exactly first, then without regard to case.",
    "OperationReused": "Give the change an operation id of its own, rows of a sink a higher checkpoint number; the one they came with names another change.",
    "InvalidChange": "Change another column, or make a new table with the columns you want. The message says what is allowed.",
    "InvalidTime": "Write the time as the index has it: with an offset for an aware index, without one for a naive index.",
    "InvalidFilter": "Write one condition in the SQL that a filter knows, or use `table.sql`.",
    "InvalidQuery": "Mend the SQL. The message is DuckDB's.",
    "QueryLimitExceeded": 'Ask for less: filter, aggregate; or ask again later where `limit` is "queries".',
    "InvalidPipeline": "Mend the SQL at `line` and `column`; the message shows the place, and the nearest valid name.",
    "SparkNotStarted": "Do what the message says; `gapless doctor` lists what Spark needs and what this machine has.",
    "PartialFailure": "Mend the cause that the message tells, and run again: it goes on behind the pages that are committed.",
    "PipelineFailed": "Mend the cause that the message tells, and run the pipeline again: it goes on with that batch.",
    "NotReplicated": "Pull again and name the table, or ask the lake itself.",
    "ReadOnlyReplica": "Write into the lake that it is a copy of, or pull a copy that is written into (`writable=True`).",
    "SyncConflict": "Look at `report.conflicts`, each of which says what to do; the other tables are copied.",
    "LeaseRefused": "Wait for the run that `holder` names, or for its lease to end; then run again.",
    "InvalidPath": "Write another path or URL.",
    "InvalidRecord": "Mend the field that `field` names at the sender, or set the record aside. Nothing was written.",
    "ImportRefused": "Mend the files that `files` names, or leave out the columns that do not fit. Nothing was imported.",
    "TableExists": "Open the table that is there, or choose another path.",
    "TableNotFound": "Check the path, or create the table.",
    "VersionNotFound": "Ask for one of the versions that the message says there are, or that remain.",
    "NotSupported": "Do without the feature, install what is missing, or wait for a later release.",
    "SourceCannotReplay": "Use a source that has cursors, such as a table, files or a log.",
    "SinkCannotDedup": "Use a sink that remembers its checkpoints, such as a table.",
    "NoCheckpointing": "Give the runner a checkpoint store.",
    "RetractingInput": 'Make the sink with `mode="cdc"`, or let a transform say what becomes of rows that were taken back.',
    "DataError": "Fix the data and send it again. Nothing was written.",
    "SchemaMismatch": "Cast, rename or leave out the columns in `differences`.",
    "UnsupportedType": "Cast the column to a type that the table of types lists, or leave it out.",
    "NullKey": "Fill the value in row `row`, or drop the row.",
    "DuplicateKey": 'Leave one row of each key, or upsert with `on_duplicate="last"`. `keys` lists the first.',
    "InvalidValue": "Change the value in row `row`, or make a table whose column holds it.",
    "AmbiguousTime": "Send the time with its offset, or as UTC.",
    "UnreadableInput": "Mend the file or fetch it again; state its format, delimiter or encoding where those differ.",
    "ConflictError": "Read what the table holds now, then decide. Nothing was written.",
    "CoverageOverlap": 'Nothing, if the data was sent before. Else pass `on_overlap="skip"` or `"allow"`.',
    "CommitConflict": "Refresh the table, look at `version`, and send the change again if it is still wanted.",
    "StreamRestarted": "Say with `app_id` under which name its batches count: the message tells which one passes over what the table has.",
    "CommitOutcomeUnknown": "When the store answers again, look for `commit_id` in `table.history()`. If it is absent, append again.",
    "FillStopped": "Mend the cause and call `fill` again: it asks for exactly what is still missing.",
    "TableError": "Look at the table: its release, or its bytes.",
    "UnsupportedTable": "Open it with the release that wrote it, or a newer gapless.",
    "ForeignCommit": "`gapless repair --apply` publishes the newest version over it; write to the table itself alone.",
    "UpgradeNeeded": "Pass `upgrade=True` (`--upgrade`) if no timeseries-table-format writer needs the table any more.",
    "CorruptTable": "Bring the object at `path` back from a backup.",
    "StoreError": "Mend the disk, the bucket or the permission; then try again.",
    "ObjectNotFound": "Look who removed the object.",
    "ObjectExists": "Read what is there; another writer came first.",
    "PreparedFilesMissing": "Abort the prepared commit and send its rows again; see whose vacuum took the files.",
    "ObjectChanged": "Read what is stored there: it can be your own, sent twice. Else decide again from what it is now.",
    "StorageFull": "Make room. Nothing of the change was kept, so it can be sent again.",
    "AccessDenied": "Give the process the permission, or the bucket its credentials.",
    "StoreUnavailable": "Wait and try again. A commit whose answer was lost ends as CommitOutcomeUnknown instead.",
}
"""Of every error class, what its reader does next."""


# -- pages -------------------------------------------------------------------------------------------------------------


_WIDTH = 128


def _page(*parts: str) -> str:
    """The text of a page, its lines of prose no longer than `_WIDTH`."""
    lines, is_code = [], False
    for line in "\n\n".join(parts).split("\n"):
        is_code ^= line.startswith("```")
        prose = not is_code and len(line) > _WIDTH and not re.match(r"[|#<]", line)
        lines += _filled(line) if prose else [line]
    return "\n".join(lines) + "\n"


def _filled(line: str) -> list[str]:
    """A paragraph or an item of a list in several lines, none of which begins as an item would."""
    indent = re.match(r" *(- )?", line)
    assert indent is not None
    words = re.sub(r" (?=([-+*#>|]|\d+\.) )", "\0", line[indent.end() :])
    lines = textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=indent[0],
        subsequent_indent=" " * indent.end(),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [one.replace("\0", " ") for one in lines]


# -- errors ------------------------------------------------------------------------------------------------------------


def errors_page() -> str:
    """The page of all errors, from the tree in gapless/errors.py."""
    tree = re.search(r"```\n(.*?)```", errors.__doc__ or "", re.DOTALL)
    return _page(
        "# Errors",
        NOTE.strip(),
        (
            "All errors descend from `gapless.GaplessError`. The tree is cut by what you would do next, so catch the branch that your"
            " program can act on. All classes are in `gapless.errors`; the branches are in `gapless` too."
        ),
        f"```text\n{re.sub(r' +exit code [0-9]+', '', tree[1] if tree else '')}```",
        (
            "A message has three parts: what happened, with values; why; and what to do. They are the attributes `what`, `why` and `fix`."
            " The facts in the message are attributes too, as listed below, so a program need not read the text. `code` never changes"
            " once released. Errors survive pickling."
        ),
        (
            "The command line prints the same three parts on stderr, with the code in brackets, and exits with the exit code. Exit codes"
            " that come from no error: 0 (fine), 3 (`gaps --fail-if-any` found something), 130 (Ctrl-C), 141 (the reader of a pipe"
            " went away). An option that is not known (`usage`) exits with 2; an error of the system (`os-error`, such as a stdout that is"
            " closed: nothing is begun then), of memory (`memory`) or of ours (`bug`) with 1, and so does a full disk under stdout"
            " (`storage-full`). Exit codes stay as they are, so that cron and CI may rely on them. `GAPLESS_TRACEBACK=1` adds a traceback."
        ),
        "| error | code | exit code |\n|---|---|---|\n" + "\n".join(_error_row(kind) for kind in error_classes()),
        *(_error_section(kind) for kind in error_classes()),
    )


def error_classes() -> list[type[errors.GaplessError]]:
    """All error classes, in the order in which they are written."""
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.GaplessError)]


def _error_row(kind: type[errors.GaplessError]) -> str:
    return f"| [{kind.__name__}](#{kind.__name__.lower()}) | `{kind.code}` | {kind.exit_code} |"


def _error_section(kind: type[errors.GaplessError]) -> str:
    facts: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        facts |= {k: v for k, v in vars(parent).get("__annotations__", {}).items() if "ClassVar" not in str(v)}
    shown = ", ".join(f"`{name}: {type_}`" for name, type_ in facts.items() if name != "facts")
    lines = [
        f"## {kind.__name__}",
        markdown(inspect.getdoc(kind) or ""),
        f"- **Code**: `{kind.code}`. **Exit code**: {kind.exit_code}. **Kind of**: {_parents(kind)}.",
        f"- **What to do**: {WHAT_TO_DO[kind.__name__]}",
    ]
    if shown:
        lines.append(f"- **Attributes**: {shown}.")
    return "\n\n".join(lines[:2]) + "\n\n" + "\n".join(lines[2:])


def _parents(kind: type) -> str:
    names = [parent.__name__ for parent in kind.__mro__[1:] if issubclass(parent, errors.GaplessError)]
    return " of ".join(f"[{name}](#{name.lower()})" for name in names) or "Python's `Exception`"


# -- commands ----------------------------------------------------------------------------------------------------------


def cli_page() -> str:
    """The page of all commands, from the help of the typer app."""
    return _page(
        "# Commands",
        NOTE.strip(),
        "`gapless COMMAND …` works on one table, by its path or URL. `gapless --help` and `gapless COMMAND --help` say the same as this page.",
        (
            "- What was asked for goes to stdout, everything else to stderr. Into a pipe or a file there is no colour and no progress.\n"
            "- With `--json` stdout holds one JSON document and nothing else.\n"
            "- Exit codes: 0 fine, 1 failed, 2 what was typed is wrong (option, column, format), 3 gaps found (`gaps --fail-if-any`),"
            " 4 an overlap was refused, 5 the outcome of a commit is not known. See [errors](../errors.md).\n"
            "- A time is ISO 8601: `2013-01-31`, `2013-01-31T06:00`, `2013-01-31T06:00Z`. See [time](../semantics/time.md).\n"
            "- Environment: `NO_COLOR` takes the colour away, `GAPLESS_TRACEBACK=1` adds a traceback to an error."
        ),
        *_command_groups(commands()),
    )


_COMMANDS = {
    "Make": "create",
    "Write": "append overwrite",
    "Read": "scan sql info schema",
    "Know what is missing": "coverage gaps fill",
    "Correct": "upsert update delete replace merge dedup drop-before alter",
    "Look back": "history log at changes restore tag",
    "Move rows": "connect import export",
    "Run pipelines": "run pipelines doctor",
    "Keep a lake": "lake",
    "Keep tidy": "compact zorder expire vacuum maintain checkpoint publish verify repair",
    "See it work": "demo",
}
"""The commands by task, those of Delta tables under the same names; not each needs to be there."""


def _command_groups(found: Mapping[str, typer.core.TyperCommand]) -> Iterator[str]:
    """Commands by task, each group under a heading; raises ValueError for a command that no group names."""
    listed = {name for names in _COMMANDS.values() for name in names.split()}
    if missing := {name for name in found if name.removeprefix("delta ") not in listed and not name.startswith("lake ")}:
        raise ValueError(f"_COMMANDS does not name {sorted(missing)}")
    for task, names in _COMMANDS.items():
        shown = [name for one in names.split() for name in (one, f"delta {one}") if name in found]
        shown += [name for name in found if name.startswith("lake ") and names == "lake"]
        if shown:
            yield "\n\n".join([f"## {task}", *(_command_section(name, found[name]) for name in shown)])


def commands() -> dict[str, typer.core.TyperCommand]:
    """The commands by name, in order; those of Delta tables as "delta create"."""
    app = typer.Typer()
    app.callback()(lambda: None)  # else a single command would be no group
    for name, (module, _) in COMMANDS.items():
        app.command(name)(load_command(module, name))
    for name, (module, _) in DELTA_COMMANDS.items():
        app.command(f"delta {name}")(load_command(module, name))
    for name, (module, _) in LAKE_COMMANDS.items():
        app.command(f"lake {name}")(load_command(module, name))
    return dict(typer.main.get_command(app).commands)


def _command_section(name: str, command: typer.core.TyperCommand) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join(["gapless", name, *(p.metavar + ("…" if p.nargs == -1 else "") for p in arguments), "[OPTIONS]"])
    text, _, example = (command.help or "").partition("Example: ")
    parts = [f"### gapless {name}", f"`{usage}`", " ".join(text.split()), f"Example: `{example.strip()}`"]
    rows = [f"| `{p.metavar}` | {_cell(p)} |" for p in arguments]
    rows += [
        f"| {', '.join(f'`{o}`' for o in p.opts)}{'' if _is_flag(p) else f' `{p.metavar}`'} | {_cell(p)} |" for p in options
    ]
    return "\n\n".join([*parts, "| argument or option | |\n|---|---|\n" + "\n".join(rows)])


def _is_flag(param: object) -> bool:
    return bool(getattr(param, "is_flag", False))


def _cell(param: typer.core.TyperOption | typer.core.TyperArgument) -> str:
    text = (param.help or "").replace("|", "\\|")
    if param.required:
        text += " Required."
    repeats = getattr(param, "multiple", False) and "repeated" not in text
    return text + (" May be repeated." if repeats else "")


# -- pipelines ---------------------------------------------------------------------------------------------------------


def pipelines_page() -> str:
    """The page of the types of sources, lookup tables and sinks of pipelines, with their options, from the tables that read them."""
    return _page(
        "# Sources and sinks of pipelines",
        NOTE.strip(),
        "What `WITH (type = …, …)` takes in [a pipeline](../howto/pipelines.md). An option that is not listed is refused, with the nearest.",
        *_type_sections("Sources", SOURCES),
        *_type_sections("Lookup tables", LOOKUPS),
        *_type_sections("Sinks", SINKS),
    )


def _type_sections(title: str, specs: Mapping[str, TypeSpec]) -> Iterator[str]:
    yield f"## {title}"
    noun = title.lower().removesuffix("s")
    for spec in specs.values():
        rows = "\n".join(f"| `{one.name}` | {_values(one)} | {one.about}. |" for one in spec.options)
        passed = f" Options that begin with {', '.join(f'`{one}`' for one in spec.passed)} are passed on as they are."
        yield f"### {spec.name} {noun}\n\n{spec.about}{passed if spec.passed else ''}\n\n| option | value | |\n|---|---|---|\n{rows}"


def _values(option: OptionSpec) -> str:
    kinds = {
        "text": "text",
        "names": "names, comma by comma",
        "size": "size",
        "duration": "length of time",
        "count": "whole number",
        "number": "whole number from 0",
    }
    shown = {"choice": ", ".join(f"`'{one}'`" for one in option.choices), "flag": "`TRUE`, `FALSE`"}.get(option.kind)
    shown = shown or kinds[option.kind]
    if option.required:
        return f"{shown}; required"
    default = f"`{str(option.default).upper()}`" if option.kind == "flag" else f"`{option.default!r}`"
    return shown if option.default is None else f"{shown}; {default} where not given"


# -- Python API --------------------------------------------------------------------------------------------------------


_API = {
    "Make and open": """create open open_at TimeSeriesTable TableView TimeSeriesTable.create TimeSeriesTable.open
        TimeSeriesTable.refresh TableView.name TableView.url TableView.version TableView.schema TableView.index TableView.entity
        TableView.properties TableView.segments TableView.identities TableView.tags TimeSeriesTable.set_properties""",
    "Write": "TimeSeriesTable.append TimeSeriesTable.append_file AppendReport Csv Json Parquet",
    "Import and export": "import_table ImportReport PlannedFile TableView.export ExportReport",
    "Read": "TableView.scan TableView.sql TableView.count TableView.bounds Rows",
    "Know what is missing": """TableView.coverage Coverage Gap Window CoveredBucket Calendar WeeklyHours Sessions TimeSeriesTable.fill
        FillReport FailedGap""",
    "Correct": "TimeSeriesTable.upsert TimeSeriesTable.delete TimeSeriesTable.replace TimeSeriesTable.drop_before ChangeReport",
    "Change columns": """TimeSeriesTable.add_column TimeSeriesTable.widen_column TimeSeriesTable.rename_column
        TimeSeriesTable.drop_column TimeSeriesTable.reorder_columns TimeSeriesTable.comment_column TimeSeriesTable.set_metadata""",
    "Look back": """TableView.at TableView.open_at TableView.history HistoryEntry TableView.changes TableView.diff VersionDiff
        SchemaDiff TimeSeriesTable.restore RestoreReport TimeSeriesTable.tag TimeSeriesTable.untag""",
    "Keep tidy": """TimeSeriesTable.plan_compaction CompactionPlan TimeSeriesTable.compact CompactionReport TimeSeriesTable.expire
        ExpireReport TimeSeriesTable.vacuum VacuumReport VacuumEntry verify TimeSeriesTable.verify VerifyReport Finding repair
        RepairReport Maintenance MaintenanceReport Scheduler Schedule JobStatus TimeSeriesTable.publish TimeSeriesTable.publications Publication""",
    "Try again": "retry Backoff",
    "Run pipelines": "pipeline",
    "Spark": """spark.session spark.configure spark.ship spark.archive spark.read spark.write spark.overwrite spark.upsert spark.merge
        spark.delete spark.replace spark.backfill spark.compact spark.batch_writer spark.check_checkpoint""",
}
"""What `gapless` exports, and the members of its tables, by task."""
_DELTA = {
    "Make and open": """create open open_at DeltaTable DeltaView DeltaTable.create DeltaTable.open DeltaTable.refresh DeltaView.name
        DeltaView.url DeltaView.version DeltaView.schema DeltaView.partition_by DeltaView.properties DeltaView.protocol""",
    "Write": "DeltaTable.append DeltaTable.append_file DeltaTable.overwrite",
    "Read": "DeltaView.scan DeltaView.query DeltaRows DeltaView.sql DeltaView.count DeltaView.files LiveFile DeltaView.export",
    "Correct": "DeltaTable.delete DeltaTable.update DeltaTable.merge Merge MergeReport DeltaTable.dedup",
    "Change columns and rules": "DeltaTable.alter Alter",
    "Look back": "DeltaView.at DeltaView.open_at DeltaView.history DeltaHistoryEntry DeltaView.changes DeltaTable.restore",
    "Keep tidy": """DeltaTable.plan_compaction DeltaCompactionPlan DeltaTable.compact DeltaTable.zorder DeltaTable.vacuum DeltaTable.checkpoint DeltaTable.cleanup_log
        DeltaTable.verify""",
    "Publish": "DeltaTable.publish DeltaTable.publications",
    "Variants": "encode_variant decode_variant shred_variant",
}
"""What `gapless.delta` exports, and the members of its tables, by task."""
_BY_TASK = ("TimeSeriesTable", "TableView", "DeltaTable", "DeltaView")
"""Classes whose members stand by task."""


def api_page() -> str:
    """The page of all public names by task, from their signatures and docstrings."""
    return _page(
        "# Python API",
        NOTE.strip(),
        (
            "`import gapless as gl`. These are all public names by task; those of `gl.delta` have [a page of their own](delta.md),"
            " and `gl.connect` is told [by what it does](../howto/connect.md), `gl.documents` [likewise](../howto/documents.md), `gl.cdc`"
            " [too](../howto/cdc.md), and `gl.parquet` [as well](../howto/parquet-files.md)."
            " `table` is a [`TimeSeriesTable`](#timeseriestable), which has all that a [`TableView`](#tableview) has, too. Ranges are"
            " half-open everywhere: a start is inside, an end is just past. What is not listed here may change without notice."
        ),
        _contents(_API),
        *_sections(
            _API,
            gapless,
            "gl",
            {*gapless.__all__}
            - _ERRORS
            - {"cdc", "errors", "connect", "delta", "documents", "lake", "metrics", "parquet", "spark", "__version__"},
        ),
        "## Errors",
        (
            f"{', '.join(f'[`{name}`](../errors.md#{name.lower()})' for name in sorted(_ERRORS))}; all of them in `gapless.errors`, see"
            " [errors](../errors.md). `gapless.__version__` is the version of the package, a text."
        ),
    )


def _contents(groups: Mapping[str, str]) -> str:
    """A line for each task, with a link to each name."""
    lines = []
    for task, names in groups.items():
        shown = (f"[`{name.rpartition('.')[2]}`](#{_anchor(name)})" for name in names.split() if name not in _SAME_AS)
        lines.append(f"- [{task}](#{task.lower().replace(' ', '-')}): {', '.join(shown)}.")
    return "\n".join(lines)


def _anchor(name: str) -> str:
    return f"gl{name}".replace(".", "").lower() if name.startswith("spark.") else name.replace(".", "").lower()


def _sections(groups: Mapping[str, str], home: ModuleType, prefix: str, names: AbstractSet[str]) -> Iterator[str]:
    """A heading for each task and a section for each of its names; raises ValueError where it is not each of `names` once, with the
    members of tables.
    """
    listed = [name for texts in groups.values() for name in texts.split()]
    tables = [name for name in _BY_TASK if hasattr(home, name)]
    wanted = names | {f"{name}.{member}" for name in tables for member in _members(getattr(home, name))}
    wanted |= {f"spark.{name}" for name in spark.__all__} if home is gapless else set()
    if len({*listed}) != len(listed) or {*listed} != wanted:
        raise ValueError(f"not by task, or twice: {sorted({*listed} ^ wanted)}")
    for task, texts in groups.items():
        yield f"## {task}"
        for name in texts.split():
            yield _section(name, home, prefix)


def _section(name: str, home: ModuleType, prefix: str) -> str:
    owner, _, member = name.partition(".")
    if owner == "spark":
        return _function_section(member, spark, "gl.spark", title=f"gl.spark.{member}")
    if member:
        kind = getattr(home, owner)
        return _member(kind, member, _members(kind)[member], level=3)
    return (_class_section if inspect.isclass(getattr(home, name)) else _function_section)(name, home, prefix)


_NOT_SHOWN = {"AppendReport.of", "Csv.declared", "Rows.read"}
"""What our own layers use."""
_HANDLES = {
    "TimeSeriesTable": "table",
    "TableView": "table",
    "DeltaTable": "table",
    "DeltaView": "table",
    "Alter": "table.alter",
    "MetricsServer": "server",
}
_OF_DELTA = {name for name in delta.__all__ if inspect.isclass(getattr(delta, name))}
_WITH_SECTION = {getattr(gapless, name) for name in gapless.__all__ if inspect.isclass(getattr(gapless, name))} | {
    getattr(delta, name) for name in _OF_DELTA
}
_SAME_AS = {
    "TimeSeriesTable.create": "[`gl.create`](#create)",
    "TimeSeriesTable.open": "[`gl.open`](#open)",
    "TableView.open_at": "[`gl.open_at`](#open_at)",
    "DeltaTable.create": "[`gl.delta.create`](#create)",
    "DeltaTable.open": "[`gl.delta.open`](#open)",
    "DeltaView.open_at": "[`gl.delta.open_at`](#open_at)",
}
_ERRORS = {name for name in gapless.__all__ if name != "errors" and hasattr(errors, name)}


def delta_page() -> str:
    """The page of `gl.delta` by task, from the signatures and docstrings of what it exports."""
    return _page(
        "# Delta tables",
        NOTE.strip(),
        (
            "`gl.delta` makes and opens Delta tables. [The guide](../howto/delta.md) shows it at work, [types and"
            " semantics](../semantics/delta.md) say what things mean, [conflicts](../semantics/delta-clashes.md) which change may follow"
            " which. What a scan gives back is a [`Rows`](api.md#rows) with a few methods more; reports that both kinds of table have"
            " are among those of [time-series tables](api.md). Errors are [the same](../errors.md)."
        ),
        _contents(_DELTA),
        *_sections(_DELTA, delta, "gl.delta", {*delta.__all__}),
    )


def _function_section(name: str, home: object = gapless, prefix: str = "gl", title: str = "") -> str:
    function = getattr(home, name)
    return f"### {title or name}\n\n{_signature(f'{prefix}.{name}', function)}\n\n{markdown(inspect.getdoc(function) or '')}"


def _class_section(name: str, home: object = gapless, prefix: str = "gl") -> str:
    kind = getattr(home, name)
    parts = [f"### {name}"]
    if is_dataclass(kind) and name not in ("Rows", "DeltaRows", "Merge"):
        parts.append(_signature(f"{prefix}.{name}", kind))
    parts.append(markdown(inspect.getdoc(kind) or ""))
    if above := [base.__name__ for base in kind.__mro__[1:] if base in _WITH_SECTION]:
        parts.append(f"It has all that {', '.join(_linked(name, kind) for name in above)} has, too.")
    texts = _field_texts(kind)
    if is_dataclass(kind):
        shown = [f for f in fields(kind) if f.repr and f.name != "read"]
        parts.append("\n".join(f"- `{f.name}`: `{f.type}`. {texts.get(f.name, '')}".rstrip() for f in shown))
    elif texts:
        parts.append("\n".join(f"- `{field}`: {text}" for field, text in texts.items()))
    if name not in _BY_TASK:
        parts += [_member(kind, member, home, level=4) for member, home in _members(kind).items()]
    return "\n\n".join(part for part in parts if part)


def _linked(name: str, page_of: type) -> str:
    """A link to a class's section, from the page that has the section of another."""
    elsewhere = page_of.__name__ in _OF_DELTA and name not in _OF_DELTA
    return f"[`{name}`]({'api.md' if elsewhere else ''}#{name.lower()})"


def _members(kind: type) -> dict[str, type]:
    """The public members of a class by name, with the class that has each: its own, and those of classes that have no section."""
    found: dict[str, type] = {}
    for home in kind.__mro__:
        if home is not kind and (home in _WITH_SECTION or not home.__module__.startswith("gapless.tables.")):
            continue
        found |= {name: home for name in vars(home) if not name.startswith("_") and name not in found}
    shown = {name for home in kind.__mro__[1:] if home in _WITH_SECTION for name in dir(home)}
    return {name: home for name, home in found.items() if home is kind or name not in shown}


def _member(kind: type, name: str, home: type, *, level: int) -> str:
    raw, title = vars(home)[name], f"{'#' * level} {kind.__name__}.{name}"
    if f"{kind.__name__}.{name}" in _SAME_AS:
        return f"{title}\n\nThe same as {_SAME_AS[f'{kind.__name__}.{name}']}."
    if isinstance(raw, property):
        annotation = inspect.signature(raw.fget).return_annotation if raw.fget else ""
        return f"{title}\n\n`{annotation}`. {markdown(inspect.getdoc(raw) or '')}"
    if f"{kind.__name__}.{name}" in _NOT_SHOWN or not (inspect.isroutine(raw) or isinstance(raw, classmethod)):
        return ""
    function = getattr(kind, name)
    owner = f"gl.{kind.__name__}" if isinstance(raw, classmethod) else _HANDLES.get(kind.__name__, kind.__name__.lower())
    return f"{title}\n\n{_signature(f'{owner}.{name}', function)}\n\n{markdown(inspect.getdoc(function) or '')}"


def _signature(name: str, function: object) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    shown = [
        p
        for one in signature.parameters.values()
        if one.name != "self" and not one.name.startswith("_")
        for p in _spelled_out(one)
    ]
    returns = signature.return_annotation
    arrow = "" if returns in (inspect.Signature.empty, None, "None") else f" -> {returns}"
    line = f"{name}{signature.replace(parameters=shown, return_annotation=inspect.Signature.empty)!s}"
    text = _plain_quotes(line + arrow)
    if len(text) > 100:
        text = _wrapped(name, [_plain_quotes(p) for p in _parameter_texts(shown)], arrow)
    return f"<!-- not run: a signature -->\n```python\n{text}\n```"


_OPTIONS = {
    "IndexOptions": (IndexOptions, INDEX_DEFAULTS),
    "FillOptions": (FillOptions, FILL_DEFAULTS),
    "BackfillOptions": (BackfillOptions, BACKFILL_DEFAULTS),
    "ReadOptions": (ReadOptions, READ_DEFAULTS),
    "ImportOptions": (ImportOptions, IMPORT_DEFAULTS),
    "ExportOptions": (ExportOptions, EXPORT_DEFAULTS),
}
"""What `**options: Unpack[…]` stands for, and its defaults."""


def _spelled_out(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """A parameter; in the place of `**options` the keywords that it takes, where they are listed."""
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD or parameter.annotation == "Any":
        yield parameter
        return
    options, defaults = _OPTIONS[str(parameter.annotation).removeprefix("Unpack[").removesuffix("]")]
    for name, annotation in options.__annotations__.items():
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(name, kind, default=defaults[name], annotation=annotation.__forward_arg__)


def _parameter_texts(parameters: list[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield str(parameter)


def _wrapped(name: str, parameters: list[str], arrow: str) -> str:
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){arrow}"])


def _plain_quotes(text: str) -> str:
    """An annotation that is a text prints in quotes, which go; a default that is one prints in the other quotes."""
    bare = re.sub(r"(: |-> )'((?:[^'\\]|\\.)*)'", r"\1\2", text).replace("<factory>", "{}")
    return re.sub(r"'([^'\"]*)'", r'"\1"', bare)


def _field_texts(kind: type) -> dict[str, str]:
    """The string under each field of a class, and of those it descends from."""
    found: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if parent.__module__.startswith("gapless."):
            found |= _own_field_texts(parent)
    return found


def _own_field_texts(kind: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    found: dict[str, str] = {}
    name = ""
    for node in body.body if isinstance(body, ast.ClassDef) else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            found[name] = " ".join(str(node.value.value).split())
        else:
            name = ""
    return {field: text for field, text in found.items() if not field.startswith("_")}


# -- docstrings --------------------------------------------------------------------------------------------------------


def markdown(doc: str) -> str:
    """A docstring as Markdown: `Args:` becomes a list, doctests a block."""
    return "\n\n".join(filter(None, (_block(block) for block in re.split(r"\n\s*\n", doc.strip()))))


def _block(block: str) -> str:
    if block.startswith(">>>"):
        return f"<!-- not run: the test of docstrings runs it -->\n```python\n{block}\n```"
    head, _, rest = block.partition("\n")
    if head in ("Args:", "Raises:"):
        entries = re.split(r"\n(?=\S)", textwrap.dedent(rest))
        if head == "Raises:":
            return "Raises: " + " ".join(rest.split())
        return "\n".join(f"- `{name}`: {' '.join(text.split())}" for name, _, text in (e.partition(": ") for e in entries))
    if re.match(r"- ", head):
        return block
    return " ".join(block.split())


_CONFLICTS_EXAMPLE = """```python
from datetime import datetime

import gapless as gl


def rows(*hours):
    return [{"ts": datetime(2026, 1, 5, hour), "site": "north", "ppm": 412.0} for hour in hours]


ours = gl.create("air", index="ts", entity=["site"], bucket="1h")
ours.append(rows(0))
theirs = gl.open("air")
theirs.append(rows(1)).version  # -> 3

ours.version  # -> 2
ours.append(rows(2)).version  # -> 4
theirs.append(rows(2))  # raises CoverageOverlap
again = theirs.append(rows(2, 3), on_overlap="skip")
(again.version, again.rows, again.skipped_rows)  # -> (5, 1, 1)
```"""
_DELTA_CONFLICTS_EXAMPLE = """```python
import pyarrow as pa

import gapless as gl

ours = gl.delta.create("trips", pa.schema({"id": pa.int64(), "fare": pa.float64()}))
ours.append([{"id": 1, "fare": 2.5}, {"id": 2, "fare": 3.0}])
theirs = gl.delta.open("trips")
theirs.delete("id = 2").version  # -> 2

ours.version  # -> 1
ours.overwrite([{"id": 1, "fare": 9.0}], where="id = 1").version  # -> 3
ours.scan().to_pylist()  # -> [{'id': 1, 'fare': 9.0}]
```"""


def clashes_page() -> str:
    """The page of which change may follow which, from the table that decides it."""
    return _page(
        "# Conflicts",
        NOTE.strip(),
        (
            "Two writers make a change at once. One commits first; may the other's change still follow? The table below is the one"
            " that the code asks. A change that *stands* follows with the segments that it has written. One that *rebases* follows"
            " after it was adapted. One that *conflicts* is refused, and nothing of it stays."
        ),
        "For example, two handles of one table, each of which knows nothing of the other's commits until it commits itself:",
        _CONFLICTS_EXAMPLE,
        (
            "`ours` lost to version 3, which is in other buckets: it stands, as version 4. `theirs` loses to that, which covers its bucket:"
            " it is refused under `reject`, and written again without that row under `skip`."
        ),
        "## Which change may follow which",
        (
            "A *rewrite* upserts, replaces or deletes rows; to *compact* lays rows out anew; *schema* changes columns;"
            " *properties* changes properties. What overlapping means says [coverage](coverage.md#overlap)."
        ),
        "| ours | came first | on_overlap | what holds |\n|---|---|---|---|\n"
        + "\n".join(_clash_row(*row) for row in describe()),
        "Why, in the order in which it is asked:",
        "\n".join(f"- {text}." for text in dict.fromkeys(_reasons())),
    )


def metrics_page() -> str:
    """The page of all metrics, from the table of instruments."""
    return _page(
        "# Metrics",
        NOTE.strip(),
        (
            "What [`gl.metrics`](../howto/metrics.md) counts. OpenTelemetry has the first name, Prometheus the second. Counters have the"
            " attribute `table` only where it was asked for, gauges always. `kind` is that of the table (`timeseries`, `delta`), `operation` the kind of"
            " change as the log has it, in lower case; a `source` is `timeseries`, `delta` or another kind of source, a `mode` a sink's."
        ),
        "| OpenTelemetry, Prometheus | unit | attributes | what is counted |\n|---|---|---|---|\n"
        + "\n".join(map(_metric_row, INSTRUMENTS)),
        "## In Python",
        *(_function_section(name, gapless.metrics, "gl.metrics") for name in sorted(gapless.metrics.__all__) if name.islower()),
        *(_class_section(name, gapless.metrics, "gl.metrics") for name in ("Instrument", "MetricsServer", "Sample")),
    )


def _metric_row(one: Instrument) -> str:
    attributes = ", ".join(f"`{name}`" for name in one.attributes)
    kind = "" if one.kind == "counter" else f" ({one.kind})"
    return f"| `{one.name}`{kind} `{one.prometheus_name}` | `{one.unit}` | {attributes} | {one.description} |"


def delta_clashes_page() -> str:
    """The page of which change of a Delta table may follow which, from the table that decides it."""
    return _page(
        "# Conflicts of Delta tables",
        NOTE.strip(),
        (
            "Two writers change a Delta table at once. One commits first; may the other's change still follow? The tables below are the ones"
            " that the code asks. Where no condition holds it stands, with the files that it has written. Where one holds it is decided again"
            " on the newest version, as if it had begun then, until the deadline (60 s); only what then cannot be done is an error."
        ),
        "For example, an overwrite that was begun on version 1 and meets a delete from the same file:",
        _DELTA_CONFLICTS_EXAMPLE,
        (
            "Version 2 removed a file that the overwrite was to remove (*same files*), so that was decided again on version 2. The row"
            " that was deleted did not come back."
        ),
        "## Which change may follow which",
        (
            "An *append* adds rows without a look at others; a *rewrite* decides by rows or removes some (delete, update, merge, overwrite,"
            " dedup, restore); to *compact* lays rows out anew; *table* changes columns, properties or the protocol. The isolation level is"
            " the table's `delta.isolationLevel`, WriteSerializable unless it says otherwise. With it appends that read nothing never conflict"
            " with rewrites: the table is what it would be had they come one after the other, though not always in the order of their"
            " versions."
        ),
        "What every change asks of every other:",
        "\n".join(f"- **{rule.condition}**: {rule.reason}." for rule in delta_clashes.ALWAYS),
        "| ours | came first | isolation | what conflicts besides |\n|---|---|---|---|\n"
        + "\n".join(f"| {' | '.join(row)} |" for row in delta_clashes.describe()),
    )


_REASON = re.compile(r"(?P<condition>[\w ]+): \*\*(?P<answer>\w+)\*\* \((?P<reason>.*?)\)")


def _clash_row(mine: str, theirs: str, policy: str, said: str) -> str:
    short = _REASON.sub(r"\g<condition>: **\g<answer>**", said)
    return f"| {mine} | {theirs} | {policy} | {short.removeprefix('else ')} |"


def _reasons() -> Iterator[str]:
    for *_, said in describe():
        for found in _REASON.finditer(said):
            yield f"*{found['condition'].strip()}*, {found['answer']}: {found['reason']}"


def publishing_page() -> str:
    """What survives publication, tried on tables of a temporary folder."""
    with tempfile.TemporaryDirectory() as place:
        return _page(
            "# What survives publication",
            NOTE.strip(),
            (
                "A time-series table that is [published](../howto/publish.md) keeps in each format what is marked yes here, each"
                " tried by the tool that makes this page, and by tests with readers of the format. What a format cannot say is refused"
                " before it is done: setting the property `publish` looks at what there is, and each change after it."
            ),
            *features_page(Path(place) / "series"),
            "## Delta tables",
            "A Delta table can be published as Iceberg and as Hudi; these were tried likewise.",
            *delta_features_page(Path(place) / "delta"),
        )


PAGES = {
    "docs/errors.md": errors_page,
    "docs/reference/cli.md": cli_page,
    "docs/reference/api.md": api_page,
    "docs/reference/delta.md": delta_page,
    "docs/reference/metrics.md": metrics_page,
    "docs/reference/publishing.md": publishing_page,
    "docs/reference/pipelines.md": pipelines_page,
    "docs/semantics/clashes.md": clashes_page,
    "docs/semantics/delta-clashes.md": delta_clashes_page,
}


def main() -> None:
    """Write the pages; say which changed."""
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
