"""Counts for Prometheus, through prometheus-client."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from gapless.errors import InvalidOption
from gapless.metrics.counting import ENABLING, at_end, enable, missing
from gapless.runtime.metrics import COUNTS, INSTRUMENTS, Instrument

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric


class _Collector:
    """Shows the counts whenever a registry is asked."""

    def describe(self) -> Iterator[Metric]:
        """The metrics without their values, so that a registry sees which names are taken."""
        return map(self._family, INSTRUMENTS)

    def collect(self) -> Iterator[Metric]:
        """The metrics with their values."""
        families = {one.name: self._family(one) for one in INSTRUMENTS}
        for sample in COUNTS.read():
            families[sample.instrument.name].add_metric([*sample.attributes.values()], sample.value)
        return iter(families.values())

    def _family(self, instrument: Instrument) -> Any:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        make: Callable[..., Any] = CounterMetricFamily if instrument.kind == "counter" else GaugeMetricFamily
        labels = instrument.shown(tables=COUNTS.tables)
        return make(instrument.prometheus_name, instrument.description, labels=labels)


_SHOWN: WeakSet[CollectorRegistry] = WeakSet()


def enable_prometheus(registry: CollectorRegistry | None = None, *, tables: bool = False) -> None:
    """Count from now on, and show it in a registry of prometheus-client (its global one where None).

    With `tables` counters have the label `table`, as with `enable`. Called again for a registry it changes that alone. Raises
    NotSupported where prometheus-client is not installed, InvalidOption where the registry has metrics of these names.
    """
    try:
        from prometheus_client import REGISTRY, CollectorRegistry
    except ImportError as error:
        raise missing("Prometheus", "prometheus-client") from error
    chosen = REGISTRY if registry is None else registry
    if not isinstance(chosen, CollectorRegistry):
        raise InvalidOption(
            f"a {type(registry).__name__} is no registry of prometheus-client",
            fix="Pass a prometheus_client.CollectorRegistry, or leave it out for the global one",
            option="registry",
            value=registry,
        )
    with ENABLING:
        if chosen not in _SHOWN:
            _register(chosen, _Collector())
    enable(tables=tables)


def _register(registry: CollectorRegistry, collector: _Collector) -> None:
    try:
        registry.register(collector)
    except ValueError as error:
        raise InvalidOption(
            "the registry has metrics of the same names as those of gapless",
            why=str(error),
            fix="Pass a registry of its own: prometheus_client.CollectorRegistry()",
            option="registry",
            value=registry,
        ) from error
    _SHOWN.add(registry)

    def end() -> None:
        _SHOWN.discard(registry)
        with contextlib.suppress(KeyError):  # taken away by someone else
            registry.unregister(collector)

    at_end(end)


class MetricsServer:
    """Answers Prometheus over HTTP, from a thread, until it is closed or the process ends."""

    def __init__(self, server: Any, thread: Any) -> None:
        self._server, self._thread = server, thread

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop answering, and wait until that is so. Counting goes on."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(
    port: int, address: str = "127.0.0.1", *, registry: CollectorRegistry | None = None, tables: bool = False
) -> MetricsServer:
    """Count from now on, and answer `http://address:port/metrics` with the counts as Prometheus text; port 0 takes a free one.

    It listens to this machine alone unless another `address` is given, such as `"0.0.0.0"`. Raises InvalidOption where it cannot listen
    there, and as `enable_prometheus`.
    """
    enable_prometheus(registry, tables=tables)
    from prometheus_client import REGISTRY, start_http_server

    try:
        server, thread = start_http_server(port, address, REGISTRY if registry is None else registry)
    except (OSError, OverflowError, TypeError) as error:
        raise InvalidOption(
            f"metrics cannot be served at {address}:{port}",
            why=str(error),
            fix="Pass a port from 1 to 65535 that is free, or 0 for any, and an address of this machine",
            option="port",
            value=port,
        ) from error
    return MetricsServer(server, thread)
