"""What is said of two commits, the second of which wants to follow the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gapless.log.requests import Talk

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Stands(Generic[Entry]):
    """Ours may follow theirs, as `entry` (the same, or rebased on theirs)."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Clash:
    """Ours may not follow theirs; `detail` is what the dialect wants to tell its caller."""

    reason: str
    detail: object = None


Judge = Callable[[Entry, int, Entry], Talk["Stands[Entry] | Clash"]]
"""May our entry stand after the other entry, which landed as this version?"""
