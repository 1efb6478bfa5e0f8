"""What a column that is no timestamp would have to become to be one, for messages: each way out is one that a test takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

PERIOD, INTERVAL = "pandas.period", "pandas.interval"


def how_to_timestamp(type_: pa.DataType, zone: str | None) -> str | None:
    """Why values of a type are no timestamps, and what makes them some, in `zone` where there is one; None where nothing obvious does.

    `type_` is the input's own: dictionaries and extensions are looked into.

    >>> how_to_timestamp(pa.int64(), "UTC").partition(":")[0]
    'an integer has no unit of time'
    """
    name = getattr(type_, "extension_name", None)
    if name == PERIOD:
        return f"a pandas period is a span and no instant: pass its start, df.index.to_timestamp() or df['x'].dt.to_timestamp(){_zoned(zone)}"
    if name == INTERVAL:
        return f"a pandas interval has two ends: pass one of them, df.index.left or df['x'].array.left{_zoned(zone)}"
    while pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_) or isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_.value_type
    return next((say(zone) for fits, say in _KINDS if fits(type_)), None)


def _zoned(zone: str | None) -> str:
    return "" if zone is None else f", and say its zone, as by tz_localize('{zone}')"


def _arrow(zone: str | None, unit: str = "us") -> str:
    return f"pa.timestamp('{unit}')" if zone is None else f"pa.timestamp('{unit}', '{zone}')"


def _utc(zone: str | None) -> str:
    return "" if zone is None else ", utc=True"


def _integer(zone: str | None) -> str:
    return (
        f"an integer has no unit of time: cast it, as in column.cast({_arrow(zone, 'ms')}),"
        f" or pd.to_datetime(df['x'], unit='ms'{_utc(zone)})"
    )


def _number(zone: str | None) -> str:
    return (
        f"a number has no unit of time: say it, as in pd.to_datetime(df['x'], unit='s'{_utc(zone)}),"
        f" or pc.round(pc.multiply(column, 1_000_000)).cast(pa.int64()).cast({_arrow(zone)}) for seconds"
    )


def _date(zone: str | None) -> str:
    placed = "" if zone is None else f", and say its zone, as by pc.assume_timezone(…, '{zone}') or dt.tz_localize('{zone}')"
    return (
        "a date has no time of day: its midnight is column.cast(pa.timestamp('us')), pd.to_datetime(df['x'])"
        f" or pl.col('x').cast(pl.Datetime('us')){placed}"
    )


def _text(zone: str | None) -> str:
    polars = "" if zone is None else f"time_zone='{zone}'"
    return (
        f"texts are parsed in files alone: parse them, as in column.cast({_arrow(zone)}) for ISO 8601 in Arrow, pc.strptime for"
        f" other forms, pd.to_datetime(df['x']), pl.col('x').cast(pl.String).str.to_datetime({polars}),"
        " or datetime.fromisoformat(text)"
    )


def _time(_: str | None) -> str:
    return "a time of day is on no date: join it with one, as in datetime.combine(day, time) or pl.col('day').dt.combine(pl.col('x'))"


def _duration(zone: str | None) -> str:
    start = "pd.Timestamp('1970-01-01')" if zone is None else f"pd.Timestamp('1970-01-01', tz='{zone}')"
    return f"a duration is a length of time: add it to the instant it is counted from, as in {start} + df['x']"


_Test = Callable[[pa.DataType], bool]
_KINDS: Sequence[tuple[_Test, Callable[[str | None], str]]] = (
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _number),
    (pa.types.is_decimal, _number),
    (pa.types.is_date, _date),
    (pa.types.is_string, _text),
    (pa.types.is_large_string, _text),
    (pa.types.is_string_view, _text),
    (pa.types.is_time, _time),
    (pa.types.is_duration, _duration),
)
