"""How long a Delta table keeps what is of the past, and whether a call may ask for less. Pure."""

from __future__ import annotations

from datetime import timedelta

from gapless.errors import InvalidOption
from gapless.maintain.vacuum import parse_age
from gapless.model.instant import NS_PER


def age_ns(kept: timedelta) -> int:
    """A retention in nanoseconds."""
    return kept // timedelta(microseconds=1) * NS_PER["us"]


def parse_retention(older_than: object, kept: timedelta, named: str, *, enforce: bool) -> int:
    """The age in nanoseconds by which something goes: `older_than`, or `kept`, which the table's property `named` says.

    Raises InvalidOption for what is no age, and for one below `kept` where that is enforced.
    """
    if older_than is None:
        return age_ns(kept)
    given_ns = parse_age("older_than", older_than)
    if enforce and given_ns < age_ns(kept):
        raise InvalidOption(
            f"older_than='{older_than}' is shorter than the table's retention, which is '{kept}'",
            why="Readers of versions within it, and writers that take long, could lose files under their hands",
            fix=f"Pass a longer one or none, set {named}, or pass enforce_retention=False where nobody else is at work",
            option="older_than",
            value=older_than,
        )
    return given_ns
