"""What an actor of a simulation has to do, one thing after another."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.testing.intents import Appending, Care, Intent, OperationName


@dataclass(frozen=True, slots=True)
class Do:
    """Make a change, and with an operation id send it again until the answer is clear."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class Together:
    """Append several at once, as threads that share the handle do."""

    intents: tuple[Appending, ...]


@dataclass(frozen=True, slots=True)
class GoBack:
    """Restore the version that lies so many before the one that the handle sees."""

    versions: int
    operation_id: OperationName = None


@dataclass(frozen=True, slots=True)
class Tend:
    """Tidy up: compact, vacuum, expire, tag, add a column."""

    care: Care
    amount: int
    """Seconds that a vacuum spares, versions that expiry keeps, versions that a tag goes back; else anything."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open the table anew."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Move the handle to the newest version."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read rows and coverage of the handle's version, which others may outrun for `linger_s` seconds meanwhile."""

    linger_s: float


@dataclass(frozen=True, slots=True)
class ReadOld:
    """Read the version that lies so many before the one that the handle sees."""

    versions: int
    linger_s: float


@dataclass(frozen=True, slots=True)
class Rest:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Night:
    """Do nothing until so many seconds after the beginning, when the others wake too."""

    until_s: float


Task = Do | Together | GoBack | Tend | Open | Refresh | Read | ReadOld | Rest | Night


def may_be_resent(task: Task) -> bool:
    """Whether a task is a change that can be sent twice without harm."""
    match task:
        case Do(intent):
            return intent.operation_id is not None
        case Together(intents):
            return all(intent.operation_id is not None for intent in intents)
    return False


def is_change(task: Task) -> bool:
    """Whether a task changes rows."""
    return isinstance(task, Do | Together | GoBack)
