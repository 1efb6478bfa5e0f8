"""What the stages of a pipeline are, what they are read in, and what they run in. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from gapless.documents.expressions.parse import parse_expression
from gapless.documents.expressions.scope import Evaluate, Scope
from gapless.documents.filters.parse import parse_filter
from gapless.documents.filters.tree import Condition
from gapless.documents.spill.memory import UNBOUNDED, Memory
from gapless.errors import InvalidOption, shorten

Document = dict[str, Any]
"""Never changed by a stage: others may hold it."""
Read = Callable[[str, Condition], Iterator[Document]]
"""The documents of another collection that match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What a pipeline runs in."""

    read: Read
    draw: Callable[[], float]
    """A number drawn evenly from [0, 1)."""
    memory: Memory = UNBOUNDED
    """What each stage may hold."""
    variables: Scope = field(default_factory=dict)
    """Those of `let`."""

    def knowing(self, variables: Scope) -> Running:
        """The same, with more variables."""
        return replace(self, variables={**self.variables, **variables})


class Stage(ABC):
    """One stage."""

    __slots__ = ()

    @abstractmethod
    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """What comes out of what goes in. Raises InvalidValue, and what reading another collection raises."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the other collections that it reads."""
        return ()


Stages = tuple[Stage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsing:
    """What a stage is read in."""

    reader: Callable[[object, Parsing], Stages]
    now: datetime | None = None
    """What `$$NOW` is."""
    names: frozenset[str] = frozenset()
    """The variables that there are."""
    inside: str = ""
    """The stage whose pipeline this is; empty for the outermost."""

    def expression(self, given: Any, *names: str) -> Evaluate:
        """An expression, which knows some more variables. Raises InvalidFilter, NotSupported, InvalidValue."""
        return parse_expression(given, now=self.now, names=self.names | set(names))

    def condition(self, given: Any) -> Condition:
        """A filter. Raises as `expression`."""
        return parse_filter(given, now=self.now, names=self.names)

    def pipeline(self, given: object, inside: str, *names: str) -> Stages:
        """The stages of a pipeline inside of a stage. Raises InvalidOption, and as `expression`."""
        return self.reader(given, replace(self, names=self.names | set(names), inside=inside))


def run(stages: Stages, documents: Iterator[Document], at: Running) -> Iterator[Document]:
    """Documents through stages, one after the other."""
    for one in stages:
        documents = one.run(documents, at)
    return documents


def wrong_stage(stage: str, given: object, why: str, fix: str) -> InvalidOption:
    """The error for a stage that cannot be read; `value` of it is the stage's name."""
    return InvalidOption(f"{stage} does not take {shorten(given)}", why=why, fix=fix, option="pipeline", value=stage)
