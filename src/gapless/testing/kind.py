"""What a simulated history is of: a kind of table, with all that is its own. `series.SERIES` and `delta.kind.DELTA_TABLE` are the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any

from gapless.model.protocols import Store
from gapless.runtime.driver import Rim
from gapless.testing.audit_log import Ledger
from gapless.testing.draw import Scenario
from gapless.testing.intents import Intent, Rows
from gapless.testing.tasks import Tend
from gapless.testing.watched import Watched

Held = tuple[Rows, frozenset[tuple[str, int]] | None]
"""What was read of a version: its rows, and the buckets that its coverage names where the kind has coverage."""
Table = Any
"""A handle, which has `version`, `refresh`, `at` and `append`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of table that can be simulated."""

    name: str
    first: int
    """The number of its first version."""
    draw: Callable[[Random, int], Scenario]
    """What a seed decides beforehand."""
    make: Callable[[Rim, Scenario], None]
    """Commits the first version."""
    open: Callable[[Rim], Table]
    calls: Mapping[type, Callable[[Table, Any], Any]]
    """By the type of an intent: the call that carries it out, which gives a report."""
    refusals: tuple[type[Exception], ...]
    """What a change may come to without harm: the auditor asks whether it had to."""
    append_refusals: tuple[type[Exception], ...]
    """The same of an append."""
    tend: Callable[[Table, Tend], Intent]
    """What a task of tidying up comes to on what a handle sees."""
    look: Callable[[Table], Callable[[], Held]]
    """Begins to read a version; what it gives reads on."""
    watch: Callable[[Store, Callable[[], int]], Watched]
    """The store under watch, given the one behind it and the true time in nanoseconds."""
    read_ledger: Callable[[Any], Ledger]
    """The whole log as the watch saw it."""
    after: Callable[[Table, Ledger], list[str]]
    """What is wrong with a table once all is over, beyond its rows by version."""
    stray: Callable[[Table], Any]
    """Appends a row of its own."""
    surroundings: Callable[[int], AbstractContextManager[object]] = nullcontext
    """What must hold around the history of a seed for it to repeat."""
