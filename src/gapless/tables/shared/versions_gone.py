"""Versions that a reader of changes has not seen and that can be told no longer: one error for it, and what it is to go on without."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass

from gapless.errors import LogWarning, VersionNotFound

_LOGGER = logging.getLogger("gapless.tables")


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """How the user of a reader of changes knows it, for messages."""

    option: str = "onMissingVersions"
    """What says what becomes of versions that are gone: "error" or "earliest"."""
    afresh: str = "Start the stream with a checkpoint location of its own"
    """How one begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionsGone:
    """Versions `[first, goes_on)` that can be told no longer, and what is left of the one before them."""

    first: int
    goes_on: int
    """The next that can be told."""
    rest: str = ""
    """Such as "the rows of version 4 from segment 3 on", where the version before was not read to its end."""
    why: str

    def error(self, url: str, follower: Follower) -> VersionNotFound:
        """The error that says so."""
        last = self.goes_on - 1
        some = f"what version {self.first} changed" if self.first == last else f"what versions {self.first} to {last} changed"
        versions = f"{self.rest}, and {some}," if self.rest and self.first <= last else self.rest or some
        return VersionNotFound(
            f"{versions} can be told no longer of {url}",
            why=self.why,
            fix=f'Set {follower.option} to "earliest", which leaves that out and goes on with version {self.goes_on}.'
            f" Or begin anew, which gives all rows that there are first: {follower.afresh}",
            version=self.first,
        )


def pass_over(gone: VersionNotFound, *, allowed: bool) -> None:
    """Warn that versions are left out, and log it; raise that where it is not allowed."""
    if not allowed:
        raise gone
    what = f"{gone.what}. {gone.why}. The stream goes on without."
    _LOGGER.warning(what)
    warnings.warn(what, LogWarning, stacklevel=3)
