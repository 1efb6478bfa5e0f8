"""What other formats say of a table, held against the table: for `verify`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gapless.errors import CorruptTable, ForeignCommit, GaplessError, StoreError, UnsupportedTable, VersionNotFound
from gapless.publish.publishers import Publisher, publisher_of
from gapless.publish.source import Source
from gapless.runtime.environment import Environment
from gapless.tables.shared.findings import Finding, Mend, Step


def check_publications(env: Environment, newest: Source) -> Iterator[Finding]:
    """What is wrong with each format's description; one that is behind is not. Raises StoreError."""
    try:
        settings = newest.settings
    except UnsupportedTable as error:
        yield Finding(code="publication-differs", path="", what=error.what, mend="no")
        return
    for name in settings.formats:
        publisher = publisher_of(name, env, settings)
        try:
            for what in _differences(publisher, newest):
                told = f"what is published as {name} differs from the table: {what}"
                yield Finding(code="publication-differs", path=publisher.folder, what=told, mend="repair")
        except ForeignCommit as error:
            yield Finding(code="publication-foreign", path=publisher.folder, what=error.what, mend="repair")
        except StoreError:
            raise
        except GaplessError as error:
            mend: Mend = "repair" if isinstance(error, CorruptTable) else "no"
            told = f"what is published as {name}: {error.what}"
            yield Finding(code="publication-differs", path=publisher.folder, what=told, mend=mend)


def steps_to_mend(findings: Iterable[Finding]) -> tuple[Step, ...]:
    """What mends descriptions that other writers changed."""
    wrong = {one.path for one in findings if one.code.startswith("publication-") and one.mend == "repair"}
    what = "publish the newest version over what another writer left"
    return tuple(Step(act="publish-again", path=path, what=what) for path in sorted(wrong))


def _differences(publisher: Publisher, newest: Source) -> list[str]:
    """What differs while nothing was published; what does while a writer is at work tells nothing."""
    found = publisher.published()
    while True:
        told = [] if found is None else _differences_from(publisher, newest, found[0])
        before, found = found, publisher.published() if told else found
        if found == before:
            return told


def _differences_from(publisher: Publisher, newest: Source, version: int) -> list[str]:
    if version > newest.version and (later := newest.at(None)) is not None:
        newest = later
    if version > newest.version:
        return [f"it describes version {version}, and the newest is {newest.version}"]
    try:
        source = newest if version == newest.version else newest.at(version)
    except VersionNotFound:
        return []
    return [] if source is None else publisher.differences(source)
