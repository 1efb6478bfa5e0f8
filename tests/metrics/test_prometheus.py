"""The counts as Prometheus reads them: parsed by prometheus-client's own parser, over HTTP too."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import gapless as gl
from gapless.errors import InvalidOption
from gapless.runtime.metrics import COMMITS
from support.counted import counted
from support.pipelines import made, rows


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    gl.metrics.disable()
    yield
    gl.metrics.disable()


def parsed(text: str) -> dict[str, float]:
    """Each sample as Prometheus writes it."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def told(registry: CollectorRegistry = REGISTRY) -> dict[str, float]:
    return parsed(generate_latest(registry).decode())


def test_counters_have_their_names_labels_and_types(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    gl.metrics.enable_prometheus(registry)
    table = made("delta", tmp_path)
    table.append(rows(0, 3))
    size = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    gl.connect.source(f"delta:{tmp_path}").poll(1)
    assert told(registry) == {
        'gapless_commits_total{kind="delta",operation="create table"}': 1,
        'gapless_commits_total{kind="delta",operation="append"}': 1,
        'gapless_rows_written_total{kind="delta",operation="append"}': 3,
        'gapless_files_written_total{kind="delta",operation="append"}': 1,
        'gapless_data_written_bytes_total{kind="delta",operation="append"}': size,
        'gapless_source_rows_total{source="delta"}': 1,
        f'gapless_source_lag{{source="delta",table="{tmp_path}"}}': 1,
    }
    types = dict(line.split()[2:] for line in generate_latest(registry).decode().splitlines() if line.startswith("# TYPE"))
    assert types == {one.prometheus_name: one.kind for one in gl.metrics.INSTRUMENTS}


def test_with_tables_each_has_its_own_counters(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    gl.metrics.enable_prometheus(registry, tables=True)
    places = [tmp_path / "a", tmp_path / 'with "quotes" and \\ in it']
    for number, place in enumerate(places):
        made("timeseries", place).append(rows(0, 1 + number))
    found = list(text_string_to_metric_families(generate_latest(registry).decode()))
    written = {one.labels["table"]: one.value for family in found for one in family.samples if "rows_written" in one.name}
    assert written == {str(places[0]): 1, str(places[1]): 2}


def test_the_global_registry_is_taken_where_none_is_given_and_once_however_often_it_is_asked_for() -> None:
    gl.metrics.enable_prometheus()
    gl.metrics.enable_prometheus()
    COMMITS.add(1, "delta", "append", "t")
    ours = {name: value for name, value in told().items() if "gapless" in name}
    assert ours == {'gapless_commits_total{kind="delta",operation="append"}': 1}
    gl.metrics.disable()
    assert not [name for name in told() if "gapless" in name]


def test_two_registries_show_the_same_counts() -> None:
    registries = CollectorRegistry(), CollectorRegistry()
    for registry in registries:
        gl.metrics.enable_prometheus(registry)
        COMMITS.add(1, "delta", "append", "t")
    assert [told(one) for one in registries] == [{'gapless_commits_total{kind="delta",operation="append"}': 2}] * 2


def test_a_registry_that_has_such_names_is_refused_and_nothing_is_counted() -> None:
    registry = CollectorRegistry()
    Counter("gapless_commits", "Someone else's.", registry=registry)
    with pytest.raises(InvalidOption, match="same names") as refused:
        gl.metrics.enable_prometheus(registry)
    assert refused.value.option == "registry"
    COMMITS.add(1, "delta", "append", "t")
    assert gl.metrics.read() == ()


def test_what_is_no_registry_is_refused() -> None:
    with pytest.raises(InvalidOption, match="a str is no registry"):
        gl.metrics.enable_prometheus("registry")  # type: ignore[arg-type]


def test_over_http_a_run_counts_what_this_process_reads(tmp_path: Path) -> None:
    server = gl.metrics.serve(0, registry=CollectorRegistry())
    try:
        made("timeseries", tmp_path).append(rows(0, 9))
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            found = parsed(answer.read().decode())
        assert found['gapless_rows_written_total{kind="timeseries",operation="append"}'] == counted("gapless.rows.written") == 9
        with pytest.raises(InvalidOption, match="cannot be served") as refused:
            gl.metrics.serve(server.port, registry=CollectorRegistry())
        assert (refused.value.option, refused.value.value) == ("port", server.port)
    finally:
        server.close()
    gl.metrics.serve(server.port, registry=CollectorRegistry()).close()


@pytest.mark.parametrize("port", [-1, 70_000, "http"])
def test_what_is_no_port_is_refused(port: object) -> None:
    with pytest.raises(InvalidOption, match="cannot be served"):
        gl.metrics.serve(port, registry=CollectorRegistry())  # type: ignore[arg-type]


def test_an_address_that_is_not_this_machines_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"cannot be served at no-such-host\.invalid:0"):
        gl.metrics.serve(0, "no-such-host.invalid", registry=CollectorRegistry())


@pytest.mark.parametrize(
    ("call", "library"),
    [
        ("enable_prometheus()", "prometheus_client"),
        ("serve(0)", "prometheus_client"),
        ("enable_opentelemetry()", "opentelemetry"),
    ],
)
def test_without_the_extra_it_says_what_to_install(call: str, library: str) -> None:
    code = f"""
import sys
sys.modules[{library!r}] = None
import gapless as gl
try:
    gl.metrics.{call}
except gl.errors.NotSupported as error:
    print(error.feature, "|", error.fix, "|", gl.metrics.read())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "metrics | pip install 'gapless[metrics]' | ()\n"


def test_neither_tables_nor_connect_nor_counting_load_either_library(tmp_path: Path) -> None:
    code = f"""
import sys
import gapless as gl
gl.metrics.enable()
gl.create({str(tmp_path / "t")!r}, index="n", index_type="int64", bucket=1).append({{"n": [1]}})
gl.connect.source({f"timeseries:{tmp_path / 't'}"!r}).poll()
print(len(gl.metrics.read()), *sys.modules)
"""
    count, *loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(count) > 3
    assert [name for name in loaded if name.startswith(("prometheus_client", "opentelemetry"))] == []
