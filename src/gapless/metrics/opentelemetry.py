"""Counts for OpenTelemetry, through opentelemetry-api: the program's meter provider says where they go, and how often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakSet

from gapless._version import __version__
from gapless.errors import InvalidOption
from gapless.metrics.counting import ENABLING, enable, missing
from gapless.runtime.metrics import COUNTS, INSTRUMENTS, Instrument

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation


_SHOWN: WeakSet[MeterProvider] = WeakSet()


def enable_opentelemetry(meter_provider: MeterProvider | None = None, *, tables: bool = False) -> None:
    """Count from now on, and show it to a meter provider (the program's global one where None), as the meter `gapless`.

    With `tables` counters have the attribute `table`, as with `enable`. Called again for a provider it changes that alone. Raises
    NotSupported where opentelemetry-api is not installed, InvalidOption for what is no meter provider.
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise missing("OpenTelemetry", "opentelemetry-api") from error
    provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
    if not isinstance(provider, metrics.MeterProvider):
        raise InvalidOption(
            f"a {type(meter_provider).__name__} is no meter provider of OpenTelemetry",
            fix="Pass one of opentelemetry.sdk.metrics.MeterProvider, or leave it out for the global one",
            option="meter_provider",
            value=meter_provider,
        )
    with ENABLING:
        if provider not in _SHOWN:
            meter = provider.get_meter("gapless", __version__)
            for instrument in INSTRUMENTS:
                _make(meter, instrument)
            _SHOWN.add(provider)
    enable(tables=tables)


def _make(meter: Meter, instrument: Instrument) -> None:
    """An instrument of a meter, which asks for the counts whenever it is read."""
    from opentelemetry.metrics import Observation

    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(one.value, dict(one.attributes)) for one in COUNTS.read() if one.instrument is instrument]

    make = meter.create_observable_counter if instrument.kind == "counter" else meter.create_observable_gauge
    make(instrument.name, callbacks=[observe], unit=instrument.unit, description=instrument.description)
