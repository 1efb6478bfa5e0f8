"""What a pipeline refuses, in words."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.errors import InvalidOption, NotSupported


def refuse_store(what: str, why: str, url: str) -> InvalidOption:
    """The error for a sink and a checkpoint store that do not fit together."""
    fix = (
        "Bring the store and the table back as they were, or begin anew with an empty store and a higher generation of the sink: "
        "all rows come again"
    )
    return InvalidOption(what, why=why, fix=fix, option="store", value=url)


def refuse_transform_argument(given: object) -> InvalidOption:
    """The error for what is no transform."""
    return InvalidOption(
        f"a {type(given).__name__} is no transform",
        why="A pipeline is made of its source, a function of each batch, its sinks and its store, in this order",
        fix="Pass Runner(source, None, sinks, store) for rows as they come",
        option="transform",
        value=given,
    )


def refuse_transform(what: str) -> InvalidOption:
    """The error for what a transform gave."""
    return InvalidOption(
        f"the transform gave {what}",
        why="It gives a record batch or table for all sinks, or a mapping with one for each of them",
        fix="Give each sink its rows, an empty batch of the same columns where there are none",
        option="transform",
        value=None,
    )


def refuse_pipeline(
    kind: type[NotSupported], what: str, why: str, fix: str = "Use another source or sink for it", **facts: str
) -> NotSupported:
    """The error for a pipeline that could not keep what it promises, before its first row."""
    return kind(what, why=why, fix=fix, feature="exactly-once pipelines", **facts)


def refuse_sinks(given: object) -> InvalidOption:
    """The error for a pipeline whose sinks are none, or have no names."""
    return InvalidOption(
        f"sinks of type {type(given).__name__} name {'no sink' if isinstance(given, Mapping) else 'none by its name'}",
        why="Rows that are read go into one sink at least: the cursor moves past them",
        fix='Pass a mapping of sinks by name, such as {"trips": sink}',
        option="sinks",
        value=None,
    )


def refuse_one_sequence(name: str, other: str, app: str) -> InvalidOption:
    """The error for two sinks of a pipeline whose checkpoints one table knows as one sequence."""
    return InvalidOption(
        f"the sinks {name!r} and {other!r} are both {app} of one table",
        why="The table knows checkpoints by that, and would leave out the rows of one of them",
        fix="Give each sink of a table a name of its own",
        option="name",
        value=other,
    )
