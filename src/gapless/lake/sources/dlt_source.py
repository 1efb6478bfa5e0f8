"""A source or resource of dlt as the source of a run: its records are pages, and its state is the cursor. dlt itself stores nothing.

dlt lets whoever iterates a resource put a state into it, which the resource and its incremental cursors read and write. It is
right once all records came, and not before: they need not come in the order of the cursor.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gapless.errors import InvalidOption, NotSupported, UnreadableInput, nearest
from gapless.lake.pages import LATER, Page
from gapless.model.protocols import Clock
from gapless.runtime.environment import SystemClock
from gapless.tables.shared.library_errors import missing_library

CHUNK_ROWS, CHUNK_S = 10_000, 5.0
"""Records of a page, or those that came in so many seconds: between pages the lease is renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DltSource:
    """What `lake.run` calls with the saved cursor. Made by `dlt_source`."""

    made: Any = field(repr=False)
    """A resource or source of dlt, or the function with dlt's decorator that makes one."""
    resource: str | None = None
    """Which of a source's resources is meant."""
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Those of the function."""
    told: str
    """What manifests say of it."""
    clock: Clock = field(default_factory=SystemClock, repr=False)

    def __enter__(self) -> Self:
        """It, as sources of `gapless.connect` do."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing is held open."""

    def __call__(self, saved: str | None) -> Iterator[Page]:
        """The pages from a state on, of which the last has the state behind all. Raises InvalidOption, NotSupported, UnreadableInput."""
        from dlt.common.configuration.container import Container
        from dlt.common.json import json
        from dlt.common.pipeline import StateInjectableContext

        state: Any = {} if saved is None else json.typed_loads(saved)
        held: object = None
        try:
            with Container().injectable_context(StateInjectableContext(state=state)):
                items = iter(self._resource())
            for rows in _chunks(items, self.clock):
                if held is not None:
                    yield Page(held, LATER)
                held = rows
        except (InvalidOption, NotSupported):
            raise
        except Exception as error:
            raise _failed(self.told, error) from error
        if held is not None:
            yield Page(held, json.typed_dumps(state))

    def _resource(self) -> Any:
        """The one resource whose records are meant, as a source where it is one of several."""
        from dlt.extract.resource import DltResource

        made = self.made
        if self.arguments or not hasattr(made, "__iter__"):
            try:
                made = made(**self.arguments)
            except TypeError as error:
                raise InvalidOption(
                    f"{self.told} cannot be called with {', '.join(self.arguments) or 'no arguments'}",
                    why=str(error),
                    fix="Give the arguments that it has",
                    option="options",
                    value=sorted(self.arguments),
                ) from error
        of_source = (
            {} if isinstance(made, DltResource) else made.selected_resources if self.resource is None else made.resources
        )
        found = [made] if isinstance(made, DltResource) else list(of_source.values())
        names = [one.name for one in found]
        if self.resource is not None:
            if self.resource not in names:
                raise InvalidOption(
                    f"{self.told} has no resource {self.resource!r}",
                    fix=nearest(self.resource, names),
                    option="resource",
                    value=self.resource,
                )
            found = [one for one in found if one.name == self.resource]
        if len(found) != 1:
            raise InvalidOption(
                f"{self.told} has the resources {', '.join(names) or '(none)'}",
                why="The records of one go into one table",
                fix=f"Name it: resource={names[0]!r}" if names else "Check what the function returns",
                option="resource",
                value=None,
            )
        _check_resource(found[0], self.told)
        return made if isinstance(made, DltResource) else made.with_resources(found[0].name)


def dlt_source(made: object, *, resource: str | None = None, **arguments: object) -> DltSource:
    """A source or resource of dlt as a source of `lake.run`, whose cursor is dlt's state.

    Args:
        made: A `@dlt.resource` or `@dlt.source`: the function, or what it returned. A function that reads dlt's state as it is called is to be
            given itself.
        resource: Which resource of a source that has several.
        arguments: The function's.

    dlt runs no pipeline and stores nothing: not its state, which is the cursor, nor its schema; the table's own drift policy and key say what
    becomes of records. A run that fails keeps nothing of it, since dlt's state is right at the end only. Raises NotSupported without dlt,
    InvalidOption for what is neither.
    """
    _require_dlt()
    name = getattr(made, "name", None) or getattr(made, "__name__", type(made).__name__)
    return DltSource(made=_checked(made, str(name)), resource=resource, arguments=arguments, told=f"dlt:{name}")


def find_dlt_source(place: str, *, resource: str | None, arguments: Mapping[str, Any]) -> DltSource:
    """That which `module:function` names, where the module can be imported, also from the working directory.

    Only what has dlt's decorator is called. Raises NotSupported without dlt, InvalidOption.
    """
    module, colon, function = place.partition(":")
    if not colon or not module or not function:
        raise InvalidOption(f"dlt={place!r} names no function", fix="Write 'module:function'", option="dlt", value=place)
    _require_dlt()
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last, so that nothing is hidden by what lies there
    try:
        found = import_module(module)
    except Exception as error:
        lacks = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        raise InvalidOption(
            f"the module {module!r}, which dlt={place!r} names, cannot be imported",
            why=f"Neither an installed package nor a file in {here} is called so"
            if lacks
            else f"{type(error).__name__}: {error}",
            fix="Install it, or run where it lies" if lacks else "Mend it",
            option="dlt",
            value=place,
        ) from error
    if not hasattr(found, function):
        raise InvalidOption(
            f"{module} has no {function!r}", fix=nearest(function, _decorated(vars(found))), option="dlt", value=place
        )
    made = _checked(getattr(found, function), place)
    return DltSource(made=made, resource=resource, arguments=arguments, told=f"dlt:{place}")


def _decorated(names: Mapping[str, object]) -> Sequence[str]:
    return [name for name, value in names.items() if _is_of_dlt(value)]


def _is_of_dlt(value: object) -> bool:
    from dlt.extract.reference import SourceFactory
    from dlt.extract.resource import DltResource
    from dlt.extract.source import DltSource as TheirSource

    return isinstance(value, DltResource | TheirSource | SourceFactory)


def _require_dlt() -> None:
    try:
        import_module("dlt")
    except ImportError as error:
        raise missing_library("sources of dlt", "dlt", "dlt") from error


def _checked(made: object, name: str) -> object:
    if not _is_of_dlt(made):
        raise InvalidOption(
            f"{name} is no source or resource of dlt, but a {type(made).__name__}",
            why="It has neither @dlt.source nor @dlt.resource",
            fix="Add the decorator; a function of your own is a source of lake.run as it is",
            option="dlt",
            value=name,
        )
    return made


def _check_resource(resource: Any, name: str) -> None:
    """Raise NotSupported for what would become other rows than dlt makes of it."""
    if callable(resource.table_name):
        raise NotSupported(
            f"{name} says for each record of {resource.name!r} which table it belongs to",
            why="The records of a pipeline go into one table",
            fix="Give it one table_name, and let a pipeline each take the records of one",
            feature="dlt resources with dynamic table names",
        )
    if resource.write_disposition == "replace":
        raise NotSupported(
            f"{name} replaces its table each time: {resource.name!r} has write_disposition='replace'",
            why="A run adds rows, and what is gone would stay",
            fix="Make it append or merge, resource.apply_hints(write_disposition='merge'), and give the table a key",
            feature="dlt resources that replace",
        )


def _chunks(items: Iterator[object], clock: Clock) -> Iterator[object]:
    """Records as lists, tables and frames by themselves; none that is empty."""
    held, since = list[object](), clock.monotonic()
    for item in items:
        if isinstance(item, Mapping):
            held.append(item)
            if len(held) >= CHUNK_ROWS or clock.monotonic() - since >= CHUNK_S:
                yield held
                held, since = [], clock.monotonic()
            continue
        if held:
            yield held
            held, since = [], clock.monotonic()
        if not hasattr(item, "__len__") or len(item):
            yield item
    if held:
        yield held


def _failed(name: str, error: Exception) -> UnreadableInput:
    from dlt.common.configuration.exceptions import ConfigFieldMissingException

    cause = error
    while cause.__cause__ is not None and type(cause).__module__.startswith("dlt."):
        cause = cause.__cause__  # type: ignore[assignment]  # dlt raises exceptions from exceptions
    if isinstance(error, ConfigFieldMissingException) or isinstance(cause, ConfigFieldMissingException):
        missing = ", ".join(getattr(cause, "traces", None) or getattr(error, "traces", {}))
        return UnreadableInput(
            f"{name} lacks {missing}",
            why="dlt looks for it in its environment variables and in .dlt/secrets.toml",
            fix="Set it there, or give it as an argument: options = { … }",
            source=name,
        )
    return UnreadableInput(
        f"{name} failed: {type(cause).__name__}",
        why="What it says may hold secrets, and is not repeated; nothing of this run is kept",
        fix="Iterate the resource by itself to see it, and run again",
        source=name,
    )
