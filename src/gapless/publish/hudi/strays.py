"""Files that readers of Hudi would show, and that no version has: which they are, and when to look for them."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.files.write.instants import is_claimed
from gapless.formats.hudi.names import instant_in, parse_file_name
from gapless.formats.timeseries.actions import DATA_FOLDER, instant_digits, is_publishers, is_shared
from gapless.model.instant import NS_PER
from gapless.model.protocols import Store
from gapless.publish.hudi.plan import file_id, is_copy_name
from gapless.publish.hudi.timeline import Described
from gapless.publish.source import Source, SourceChange

LOOK_EVERY = 128
"""Versions from one that is published after a look at all files to the next such."""
LATE_NS = 3_600 * NS_PER["s"]
"""How long after a commit its instant is looked at with each later one, where others than its maker may still name files with it."""


def may_have_strays(store: Store, change: SourceChange, instant: str, now: Described) -> bool:
    """Whether the base path must be listed before a change is published at an instant.

    Not where nobody but its maker ever has a file of this instant, no late files are to be expected of others, and many a version was not
    looked at yet. Raises StoreError.
    """
    if change.version % LOOK_EVERY == 0:
        return True
    since = instant_digits(max(0, change.time_ns - LATE_NS))
    if any(one >= since and is_shared(one) for one in now.instants):
        return True
    return not (is_publishers(instant) or (not is_shared(instant) and is_claimed(store, instant)))


def strays_of(
    files: Iterable[str], seen: frozenset[str], mine: Iterable[str], instant: str, now: Described, source: Source
) -> list[str]:
    """The files that readers would show once an instant is completed, and that no version has: of attempts that failed, or are at work.

    Those of later versions that have this instant, too, are among them: they are published under copies. `seen` are files that were no
    strays when other instants were completed.
    """
    own = frozenset(mine)
    told = []
    for name in files:
        if instant_in(name) != instant and (name in seen or not _is_unknown(name, now, source)):
            continue
        if name not in own and not is_copy_name(name) and file_id(name) not in now.carried.strays:
            told.append(name)
    return told


def can_be_seen(name: str, now: Described) -> bool:
    """Whether the instant in a file's name is completed, or of before the first."""
    parsed = parse_file_name(name)
    return parsed is not None and (parsed.instant in now.instants or parsed.instant < now.first)


def _is_unknown(name: str, now: Described, source: Source) -> bool:
    """Whether a file can be seen, and the table's log does not know it."""
    path = f"{DATA_FOLDER}/{name}"
    return not source.is_live(path) and not source.was_removed(path) and can_be_seen(name, now)
