"""Actions of a command: words that say what to do, each with words and options of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gapless.errors import InvalidOption, nearest
from gapless.maintain.finding import count

T = TypeVar("T")
Given = Mapping[str, str | None]
"""What may be said beside the words of an action, by the option's name; None where it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Generic[T]):
    """One of them."""

    do: Callable[[T, Sequence[str], Given], int]
    """Does it to the table; gives back the version that holds it."""
    words: str
    """What it takes, for messages."""
    least: int
    most: int | None
    options: frozenset[str] = frozenset()


def chosen(known: Mapping[str, Action[T]], name: str, words: Sequence[str], given: Given, command: str) -> Action[T]:
    """The action of a name; raises InvalidOption for one that is not known, or that takes other words or options."""
    action = known.get(name)
    if action is None:
        raise InvalidOption(f"{name!r} is no action", fix=nearest(name, known), option="ACTION", value=name)
    if len(words) < action.least or (action.most is not None and len(words) > action.most):
        raise InvalidOption(
            f"{name} takes {action.words}, and {count(len(words), 'word')} {'was' if len(words) == 1 else 'were'} given",
            fix=f"Write {command} PATH {name} {action.words}; quote a word that holds blanks",
            option="WORDS", value=list(words),
        )  # fmt: skip
    for option, value in given.items():
        if value is not None and option not in action.options:
            raise InvalidOption(f"--{option} means nothing for {name}", fix="Leave it out", option=option, value=value)
    return action
