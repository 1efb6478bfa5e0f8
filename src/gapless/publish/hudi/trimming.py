"""What may go of a timeline, so that it does not grow with the table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gapless.formats.hudi.commits import HudiCommit
from gapless.formats.hudi.names import instant_in


@dataclass(frozen=True, slots=True)
class Files:
    """What lies in the base path."""

    instants: frozenset[str]
    """Of the names, as digits."""
    ids: frozenset[str]
    """The file ids."""

    @classmethod
    def of(cls, names: Iterable[str]) -> Files:
        """Those of these names, which Hudi can read."""
        names = tuple(names)
        return cls(frozenset(map(instant_in, names)), frozenset(name.partition("_")[0] for name in names))


def unneeded_beginning(
    instants: Sequence[str], files: Files, limit: str, is_needed: Callable[[str, Collection[str]], bool]
) -> list[str]:
    """The instants at the beginning of a timeline, `instants` in order, that may go, in the order in which they may.

    Files with an instant of before the first count as completed, and so they do as of any older instant. So one may go where the next, which
    is the first then, is not after `limit`, before which no attempt at work began; where no file of before that is uncommitted; and where it
    hid no file that is there still, which `is_needed` says, given it and the file ids that are there. The last one stays.
    """
    known = frozenset(instants)
    uncommitted = min((one for one in files.instants - known if one >= instants[0]), default=limit)
    gone = []
    for digits, following in pairwise(instants):
        if following > min(limit, uncommitted) or is_needed(digits, files.ids):
            break
        gone.append(digits)
    return gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidying:
    """What may go of a timeline where versions expired."""

    earliest: str | None
    """As of instants before this one files may be missing by now, or soon; None where that is of none."""
    unused: tuple[str, ...]
    """Instants, by their digits, that no read asks for: their files are gone, and those that they took away."""


def plan_tidying(commits: Mapping[str, HudiCommit], versions: Mapping[str, int], files: Files, earliest: int) -> Tidying:
    """What may go of a timeline where versions below `earliest` are expired; `commits` are its instants but the first and the newest,
    `versions` what all of them publish.
    """
    before = [instant for instant, version in versions.items() if version <= earliest]
    unused = (
        instant
        for instant, commit in commits.items()
        if versions[instant] < earliest and instant not in files.instants and files.ids.isdisjoint(commit.replaced)
    )
    return Tidying(earliest=max(before, default=None), unused=tuple(sorted(unused)))
