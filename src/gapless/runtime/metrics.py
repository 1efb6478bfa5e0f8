"""What gapless counts: the instruments, and the counts of this process. Counted only once `gl.metrics` was asked to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gapless.runtime.concurrency import ForkSafeLock, renew_after_fork

InstrumentKind = Literal["counter", "gauge"]

TABLE = "table"
"""The attribute that names a place. It comes last, and is left out of counters unless it was asked for."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """One thing that is counted; OpenTelemetry knows it by `name`, Prometheus by `prometheus_name`."""

    name: str
    unit: str
    """In UCUM's spelling: `By` are bytes, what is in braces is counted by one."""
    attributes: tuple[str, ...]
    """By which it is counted; `TABLE` is last."""
    description: str
    kind: InstrumentKind = "counter"

    @property
    def prometheus_name(self) -> str:
        """By Prometheus' rules: the unit behind the name, and `_total` behind a counter's.

        >>> Instrument("gapless.data.written", "By", (), "").prometheus_name
        'gapless_data_written_bytes_total'
        """
        unit = {"By": "_bytes", "s": "_seconds"}.get(self.unit, "")
        return f"{self.name.replace('.', '_')}{unit}{'_total' if self.kind == 'counter' else ''}"

    def shown(self, *, tables: bool) -> tuple[str, ...]:
        """The attributes that are told: of a counter not the table, unless `tables`."""
        return self.attributes if tables or self.kind == "gauge" else self.attributes[:-1]

    def add(self, amount: int, *values: str) -> None:
        """Count so many more; `values` are those of all `attributes`. Does nothing while nothing is counted."""
        if COUNTS.on:
            COUNTS.add(self, amount, values)

    def set(self, amount: int, *values: str) -> None:
        """Say how many there are now; else as `add`."""
        if COUNTS.on:
            COUNTS.set(self, amount, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One count."""

    instrument: Instrument
    attributes: Mapping[str, str]
    value: int


class Counts:
    """The counts of this process. A forked child begins at zero: what its parent counted is told by the parent."""

    def __init__(self) -> None:
        self.on = False
        """Whether anything is counted."""
        self.tables = False
        """Whether counters are kept by table."""
        self._lock = ForkSafeLock()
        self._counted: dict[tuple[str, ...], int] = {}
        renew_after_fork(self)

    def start_afresh(self) -> None:
        """All at zero."""
        self._counted = {}

    def add(self, instrument: Instrument, amount: int, values: tuple[str, ...]) -> None:
        """See `Instrument.add`."""
        if amount:
            key = self._key(instrument, values)
            with self._lock:
                self._counted[key] = self._counted.get(key, 0) + amount

    def set(self, instrument: Instrument, amount: int, values: tuple[str, ...]) -> None:
        """See `Instrument.set`."""
        key = self._key(instrument, values)
        with self._lock:
            self._counted[key] = amount

    def read(self) -> tuple[Sample, ...]:
        """All counts, in the order of `INSTRUMENTS` and then of the attributes' values."""
        with self._lock:
            counted, tables = dict(self._counted), self.tables
        order = {one.name: number for number, one in enumerate(INSTRUMENTS)}
        found: list[Sample] = []
        for (name, *values), value in sorted(counted.items(), key=lambda item: (order[item[0][0]], item[0])):
            instrument = INSTRUMENTS[order[name]]
            told = zip(instrument.shown(tables=tables), values, strict=False)
            found.append(Sample(instrument=instrument, attributes=dict(told), value=value))
        return tuple(found)

    def _key(self, instrument: Instrument, values: tuple[str, ...]) -> tuple[str, ...]:
        assert len(values) == len(instrument.attributes), (instrument.name, values)
        by_table = self.tables or instrument.kind == "gauge"
        return (instrument.name, *values[:-1], without_secrets(values[-1]) if by_table else "")


def without_secrets(url: str) -> str:
    """A place without what may give access to it: user and password, and what comes after `?`.

    >>> without_secrets("https://me:secret@host:9000/bucket/trips?token=secret"), without_secrets("/data/a?b")
    ('https://host:9000/bucket/trips', '/data/a?b')
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    host, slash, path = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


_OF_A_CHANGE = ("kind", "operation", TABLE)
_OF_A_KIND = ("kind", TABLE)

COMMITS = Instrument("gapless.commits", "{commit}", _OF_A_CHANGE, "Versions that this process committed.")
CONFLICTS = Instrument(
    "gapless.commit.conflicts",
    "{conflict}",
    _OF_A_CHANGE,
    "Commits that cannot follow another's which came first, or whose files a vacuum may have taken.",
)
UNKNOWN = Instrument(
    "gapless.commit.unknown", "{commit}", _OF_A_CHANGE, "Commits of which the store did not say whether they are there."
)
RETRIES = Instrument(
    "gapless.retries",
    "{retry}",
    ("cause", TABLE),
    "What was tried again: after another's commit took the number (race), for a newer version (conflict), after the store gave no usable"
    " answer (no_answer).",
)
ROWS_WRITTEN = Instrument("gapless.rows.written", "{row}", _OF_A_CHANGE, "Rows that committed changes wrote.")
ROWS_REMOVED = Instrument(
    "gapless.rows.removed", "{row}", _OF_A_CHANGE, "Rows that committed changes deleted, or put others in the place of."
)
ROWS_SKIPPED = Instrument(
    "gapless.rows.skipped",
    "{row}",
    _OF_A_CHANGE,
    'Rows left out: their bucket was covered (`on_overlap="skip"`), or a newer row of their key was there (sinks with `order_by`).',
)
FILES_WRITTEN = Instrument(
    "gapless.files.written", "{file}", _OF_A_CHANGE, "Files of rows that commits brought in; of Delta tables change files too."
)
DATA_WRITTEN = Instrument("gapless.data.written", "By", _OF_A_CHANGE, "Bytes of those files.")
DUPLICATES = Instrument(
    "gapless.duplicates.skipped",
    "{change}",
    _OF_A_CHANGE,
    "Changes left out because they are in the table already, by their operation id.",
)
COMPACTIONS = Instrument("gapless.compactions", "{run}", _OF_A_KIND, "Compactions that wrote files anew.")
COMPACTED_FILES = Instrument(
    "gapless.compaction.files", "{file}", _OF_A_KIND, "Files that compactions replaced, their own of earlier rounds too."
)
VACUUMS = Instrument("gapless.vacuums", "{run}", _OF_A_KIND, "Vacuums that came to their end, dry runs not counted.")
VACUUMED_FILES = Instrument("gapless.vacuum.files", "{file}", _OF_A_KIND, "Files that vacuums deleted.")
VACUUMED_DATA = Instrument("gapless.vacuum.data", "By", _OF_A_KIND, "Bytes of those files.")
SOURCE_ROWS = Instrument("gapless.source.rows", "{row}", ("source", TABLE), "Rows that sources gave.")
SOURCE_LAG = Instrument(
    "gapless.source.lag",
    "{version}",
    ("source", TABLE),
    "Versions that a source of a table has not read to their end, as of its last poll.",
    kind="gauge",
)
SINK_ROWS = Instrument("gapless.sink.rows", "{row}", ("kind", "mode", TABLE), "Rows that sinks took.")
SINK_PREPARED = Instrument(
    "gapless.sink.prepared", "{checkpoint}", ("kind", "mode", TABLE), "Checkpoints that sinks prepared, those without rows too."
)
SINK_FINALIZED = Instrument(
    "gapless.sink.finalized", "{checkpoint}", ("kind", "mode", TABLE), "Checkpoints that sinks finalized, or found committed."
)
SINK_ABORTED = Instrument(
    "gapless.sink.aborted", "{checkpoint}", ("kind", "mode", TABLE), "Prepared checkpoints that sinks took back."
)
PIPELINE_ROWS = Instrument(
    "gapless.pipeline.rows",
    "{row}",
    (TABLE,),
    "Rows that pipelines polled. What is said of pipelines has their checkpoint store as `table`.",
)
PIPELINE_CHECKPOINTS = Instrument(
    "gapless.pipeline.checkpoints",
    "{checkpoint}",
    ("outcome", TABLE),
    "Checkpoints of pipelines that are in all sinks (committed, or empty where it was the cursor that moved), or that were found undecided"
    " and taken back (aborted).",
)
PIPELINE_RESUMED = Instrument(
    "gapless.pipeline.resumed",
    "{checkpoint}",
    (TABLE,),
    "Checkpoints that a run found decided and not finished: it commits them.",
)
PIPELINE_BACKLOG = Instrument(
    "gapless.pipeline.backlog",
    "{checkpoint}",
    (TABLE,),
    "Checkpoints of a pipeline that are decided and not in all sinks yet.",
    kind="gauge",
)
PIPELINE_STALLS = Instrument(
    "gapless.pipeline.stalls", "{stall}", (TABLE,), "How often a sink, or the checkpoint store, began to stand still."
)

INSTRUMENTS: tuple[Instrument, ...] = tuple(one for one in list(globals().values()) if isinstance(one, Instrument))
"""All of them, in the order in which they stand above."""

COUNTS = Counts()
"""Those of this process."""
