"""What could not be exactly once is refused before the first row; each reason has an error of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapless.connect import CheckpointStore, Runner, Sink, SinkCapabilities, Source, SourceCapabilities, sink, source
from gapless.errors import NoCheckpointing, NotSupported, RetractingInput, SinkCannotDedup, SourceCannotReplay
from support.pipelines import KINDS, made, opened, rows


class Standing:
    """In front of another, with other capabilities."""

    def __init__(self, inner: Sink | Source, capabilities: SinkCapabilities | SourceCapabilities) -> None:
        self.inner, self.capabilities = inner, capabilities

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made(request.param, tmp_path / "out")
    made("timeseries", tmp_path / "feed").append(rows(0, 3))
    (tmp_path / "kind").write_text(request.param)
    return tmp_path


def parts(place: Path, **options: Any) -> tuple[Any, Any, Any]:
    kind = (place / "kind").read_text()
    reader = source(f"timeseries:{place / 'feed'}", on_change=options.pop("on_change", "error"))
    writer = sink(f"{kind}:{place / 'out'}", pipeline="orders", name="out", **options)
    return reader, writer, CheckpointStore(place / "checkpoints")


def refused(place: Path, error: type[NotSupported], runner: Runner) -> NotSupported:
    with pytest.raises(error) as caught:
        runner.run()
    table = opened((place / "kind").read_text(), place / "out")
    assert table.scan().count() == 0
    assert not (place / "checkpoints").exists() or not list((place / "checkpoints").iterdir())
    assert isinstance(caught.value, NotSupported)
    return caught.value


def test_a_source_that_cannot_replay(place: Path) -> None:
    reader, writer, store = parts(place)
    lossy: Any = Standing(reader, SourceCapabilities(replays=False, retracts=False))
    assert refused(place, SourceCannotReplay, Runner(lossy, None, {"out": writer}, store)).code == "source-cannot-replay"


def test_a_sink_that_does_not_know_what_it_committed(place: Path) -> None:
    reader, writer, store = parts(place)
    forgetful: Any = Standing(writer, SinkCapabilities(modes=frozenset({"append"}), exactly_once=False))
    found = refused(place, SinkCannotDedup, Runner(reader, None, {"out": forgetful}, store))
    assert isinstance(found, SinkCannotDedup)
    assert (found.code, found.sink) == ("sink-cannot-dedup", "out")


def test_no_checkpoint_store(place: Path) -> None:
    reader, writer, _ = parts(place)
    none: Any = None
    assert refused(place, NoCheckpointing, Runner(reader, None, {"out": writer}, none)).code == "no-checkpointing"


@pytest.mark.parametrize("options", [{}, {"mode": "upsert", "key": "id"}, {"mode": "cdc", "key": "id", "change_type": "op"}])
def test_a_retracting_source_before_a_sink_that_would_write_all_rows(place: Path, options: dict[str, Any]) -> None:
    reader, writer, store = parts(place, on_change="tell", **options)
    found = refused(place, RetractingInput, Runner(reader, None, {"out": writer}, store))
    assert isinstance(found, RetractingInput)
    assert (found.code, found.column) == ("retracting-input", "_change_type")


def test_a_retracting_source_before_a_sink_that_applies_changes(place: Path) -> None:
    reader, writer, store = parts(place, on_change="tell", mode="cdc", key="id")
    assert Runner(reader, None, {"out": writer}, store).run().rows == 3
    assert opened((place / "kind").read_text(), place / "out").scan().count() == 3
