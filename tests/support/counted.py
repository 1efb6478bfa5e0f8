"""What `gl.metrics` counted, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gapless as gl
from gapless.connect import CheckpointStore, Runner, sink, source


@contextmanager
def counting(*, tables: bool = False) -> Iterator[None]:
    """Counts from zero within the block."""
    gl.metrics.disable()
    gl.metrics.enable(tables=tables)
    try:
        yield
    finally:
        gl.metrics.disable()


def counted(name: str, **attributes: str) -> int:
    """The sum of an instrument's counts that have these attributes."""
    assert name in {one.name for one in gl.metrics.INSTRUMENTS}, name
    return sum(
        one.value for one in gl.metrics.read() if one.instrument.name == name and attributes.items() <= one.attributes.items()
    )


def pipeline(kind: str, place: Path) -> Runner:
    """From the table `feed` there into the table `sink`, in checkpoints of 4 rows."""
    return Runner(
        source(f"{kind}:{place / 'feed'}", start="earliest"),
        None,
        {"main": sink(f"{kind}:{place / 'sink'}", pipeline="p", name="main")},
        CheckpointStore(place / "checkpoints"),
        checkpoint_rows=4,
    )
