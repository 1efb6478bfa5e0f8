"""A query that dies between two looks at it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from gapless.errors import PipelineFailed
from gapless.pipelines.run.progress import RunProgress
from gapless.pipelines.run.queries import StreamingQueries
from support.faulty_store import PatientClock


@dataclass
class Dying:
    """Lives for so many looks, and has died of an error then, as Spark tells of a query."""

    looks: int
    recentProgress: tuple[()] = ()  # noqa: N815  # Spark's name

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        self.looks -= 1
        return self.looks >= 0

    def exception(self) -> Exception | None:
        return RuntimeError("out of memory") if self.looks <= 0 else None


@pytest.mark.parametrize("looks", range(6))
def test_an_error_between_two_looks_fails_the_run(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    sink = type("Sink", (), {"name": "air", "type": "delta"})
    plan: Any = type("Plan", (), {"sink": sink, "kind": "own", "numbered_by": "air", "source": ""})
    monkeypatch.setattr(StreamingQueries, "_started", lambda *_, **__: Dying(looks))
    given: dict[str, Any] = {"pipeline": None, "state": None, "spark": None, "writer": lambda _: None}
    queries = StreamingQueries(name="a", clock=PatientClock(), progress=RunProgress(), stop=threading.Event(), **given)
    with pytest.raises(PipelineFailed, match="stopped while it filled 'air'") as caught:
        queries.run([plan], continuous=False)
    assert "out of memory" in str(caught.value)
