"""What other formats say of a time-series table, held against the table: for `verify`."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.errors import ForeignCommit, GaplessError, StoreError, VersionNotFound
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.log.snapshot import load
from gapless.publish.publishers import Publisher, publisher_of
from gapless.runtime.environment import Environment
from gapless.tables.shared.findings import Finding


def check_publications(env: Environment, newest: Snapshot[TableState]) -> Iterator[Finding]:
    """What is wrong with each format's description; one that is behind is not. Raises StoreError."""
    for name in newest.state.meta.properties.publish:
        publisher = publisher_of(name, env)
        try:
            for what in _differences(env, publisher, newest):
                told = f"what is published as {name} differs from the table: {what}"
                yield Finding(code="publication-differs", path=publisher.folder, what=told, mend="repair")
        except ForeignCommit as error:
            yield Finding(code="publication-foreign", path=publisher.folder, what=error.what, mend="repair")
        except StoreError:
            raise
        except GaplessError as error:
            yield Finding(code="publication-differs", path=publisher.folder, what=f"what is published as {name}: {error.what}")


def _differences(env: Environment, publisher: Publisher, newest: Snapshot[TableState]) -> list[str]:
    found = publisher.published()
    if found is None:
        return []
    version, _ = found
    if version > newest.version:
        return [f"it describes version {version}, and the newest is {newest.version}"]
    try:
        source = newest if version == newest.version else env.drive(load(TIME_SERIES, version))
    except VersionNotFound:
        return []
    return [] if source is None else publisher.differences(source)
