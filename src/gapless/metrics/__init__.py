"""What gapless counts, for Prometheus and OpenTelemetry: `gl.metrics`.

>>> import gapless as gl
>>> gl.metrics.enable()
>>> table = gl.create("memory://counted", index="n", index_type="int64", bucket=1)
>>> [(sample.instrument.name, dict(sample.attributes), sample.value) for sample in gl.metrics.read()]
[('gapless.commits', {'kind': 'timeseries', 'operation': 'create'}, 1)]
>>> gl.metrics.disable()

Nothing is counted before one of the `enable` functions is called. Importing this loads neither library.
"""

from __future__ import annotations

from gapless.metrics.counting import disable, enable, read
from gapless.metrics.opentelemetry import enable_opentelemetry
from gapless.metrics.prometheus import MetricsServer, enable_prometheus, serve
from gapless.runtime.metrics import INSTRUMENTS, Instrument, Sample

__all__ = [
    "INSTRUMENTS",
    "Instrument",
    "MetricsServer",
    "Sample",
    "disable",
    "enable",
    "enable_opentelemetry",
    "enable_prometheus",
    "read",
    "serve",
]
