"""The counts as OpenTelemetry's SDK reads them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum

import gapless as gl
from gapless.errors import InvalidOption
from gapless.runtime.metrics import COMMITS, SOURCE_LAG
from support.pipelines import made, rows


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    gl.metrics.disable()
    yield
    gl.metrics.disable()


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def provider(reader: InMemoryMetricReader) -> Iterator[MeterProvider]:
    provider = MeterProvider([reader])
    yield provider
    provider.shutdown()


def metrics(reader: InMemoryMetricReader) -> list[Any]:
    data = reader.get_metrics_data()
    if data is None:
        return []
    return [one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics]


def told(reader: InMemoryMetricReader) -> dict[tuple[str, ...], int]:
    """Each value by the metric's name and its attributes' values."""
    return {
        (one.name, *map(str, point.attributes.values())): point.value
        for one in metrics(reader)
        for point in one.data.data_points
    }


def test_counters_and_gauges_have_their_names_units_and_attributes(
    tmp_path: Path, provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    gl.metrics.enable_opentelemetry(provider)
    made("delta", tmp_path).append(rows(0, 3))
    gl.connect.source(f"delta:{tmp_path}").poll(1)
    size = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    assert told(reader) == {
        ("gapless.commits", "delta", "create table"): 1,
        ("gapless.commits", "delta", "append"): 1,
        ("gapless.rows.written", "delta", "append"): 3,
        ("gapless.files.written", "delta", "append"): 1,
        ("gapless.data.written", "delta", "append"): size,
        ("gapless.source.rows", "delta"): 1,
        ("gapless.source.lag", "delta", str(tmp_path)): 1,
    }
    instruments = {one.name: one for one in gl.metrics.INSTRUMENTS}
    for one in metrics(reader):
        known = instruments[one.name]
        assert (one.unit, one.description) == (known.unit, known.description)
        assert isinstance(one.data, Sum) == (known.kind == "counter")
        if isinstance(one.data, Sum):
            assert one.data.is_monotonic


def test_a_provider_that_is_asked_twice_is_told_once_and_again_after_an_end(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    for _ in range(2):
        gl.metrics.enable_opentelemetry(provider)
    COMMITS.add(2, "delta", "append", "t")
    assert told(reader) == {("gapless.commits", "delta", "append"): 2}
    gl.metrics.disable()
    assert told(reader) == {}
    gl.metrics.enable_opentelemetry(provider, tables=True)
    COMMITS.add(1, "delta", "append", "t")
    SOURCE_LAG.set(4, "delta", "t")
    assert told(reader) == {("gapless.commits", "delta", "append", "t"): 1, ("gapless.source.lag", "delta", "t"): 4}


def test_the_global_provider_may_be_set_before_or_after() -> None:
    code = """
import gapless as gl
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
gl.metrics.enable_opentelemetry()
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
gl.metrics.enable_opentelemetry()
gl.create("memory://x", index="n", index_type="int64", bucket=1)
(one,) = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
print(one.name, [(dict(point.attributes), point.value) for point in one.data.data_points])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "gapless.commits [({'kind': 'timeseries', 'operation': 'create'}, 1)]\n"


def test_what_is_no_meter_provider_is_refused() -> None:
    with pytest.raises(InvalidOption, match="a str is no meter provider") as refused:
        gl.metrics.enable_opentelemetry("console")  # type: ignore[arg-type]
    assert refused.value.option == "meter_provider"
