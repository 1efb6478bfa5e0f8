"""An act: what a worker is asked to do, with a part that is timed, and parts before and after it that are not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from contest.contender import Contender
from contest.workload import Shape, load


@dataclass(slots=True, kw_only=True, frozen=True)
class Task:
    """What a worker is told once: who, which case, over what, where."""

    contender: str
    case: str
    shape: str
    folder: Path
    appends: int = 1
    rows: int = 0
    """Rows of one small append."""
    seconds: float = 0
    """When a stream of small appends ends, whether or not `appends` are done."""
    writer: str = ""
    module: str = ""

    def place(self, case: str) -> Path:
        """Where the contender's table of a case lies."""
        return self.folder / "tables" / self.module / (f"{case}_{self.shape}" if self.shape else case)


@dataclass
class Act:
    """One case of one contender."""

    contender: Contender
    task: Task
    number: int = 0
    """The round."""
    found: Any = None
    """What the timed part gave."""

    @cached_property
    def shape(self) -> Shape:
        return load(self.task.shape, self.task.folder / "workload")

    def prepare(self) -> None:
        """Once, before the first round."""

    def before(self) -> None:
        """Before each round."""

    def act(self) -> Any:
        """The timed part."""
        raise NotImplementedError

    def after(self) -> dict[str, Any]:
        """What came out, with `answer`, which must be the same for all contenders."""
        raise NotImplementedError
