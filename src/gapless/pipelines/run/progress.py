"""How far the sinks of a run have come, as threads of the run tell it and read it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from gapless.pipelines.run.state import SinkProgress
from gapless.tables.shared.findings import count

Progress = Callable[[Mapping[str, SinkProgress]], None]


@dataclass(slots=True, kw_only=True)
class RunProgress:
    """The progress of each sink of a run, by its name."""

    report: Progress | None = None
    """Called with all of it by `tell`."""
    _sinks: dict[str, SinkProgress] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, names: Iterable[str]) -> None:
        """Nothing has come into these sinks yet."""
        with self._lock:
            self._sinks = {name: SinkProgress() for name in names}

    def change(self, name: str, *, more_rows: int = 0, **facts: Any) -> None:
        """Say of a sink what has changed; `more_rows` came."""
        with self._lock:
            before = self._sinks[name]
            self._sinks[name] = replace(before, rows=before.rows + more_rows, **facts)

    def current(self) -> dict[str, SinkProgress]:
        """How they stand."""
        with self._lock:
            return dict(self._sinks)

    def tell(self) -> None:
        """Report it to whoever asked for it."""
        if self.report is not None:
            self.report(self.current())


_LAGS = (("maxOffsetsBehindLatest", "record"), ("numFilesOutstanding", "file"))
"""What sources of Spark count of what waits, and of what."""


def waiting_in(sources: Iterable[Mapping[str, Any]]) -> str:
    """What waits in the sources of a query, by its progress.

    >>> waiting_in([{"metrics": {"numFilesOutstanding": "3", "numBytesOutstanding": "900"}}, {"metrics": None}])
    '3 files'
    """
    found = dict[str, int]()
    for source in sources:
        metrics = source.get("metrics") or {}
        for name, noun in _LAGS:
            with suppress(KeyError, ValueError):
                found[noun] = found.get(noun, 0) + int(float(metrics[name]))
    return " and ".join(count(number, noun) for noun, number in found.items() if number)
