"""Options of `connect`: what is copied into what, how a missing table is made, when rows are committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Any

from gapless.cli.options import argument, flag, option, parse_mapping, refuse_given
from gapless.connect.location import place_of, split_url
from gapless.connect.sinks.open import KINDS as SINK_KINDS
from gapless.connect.sources.open import KINDS as SOURCE_KINDS
from gapless.errors import InvalidOption
from gapless.model.index import format_bucket
from gapless.model.time.duration import parse_duration
from gapless.store.location import parse_location
from gapless.tables.iceberg.options import OPTIONS as ICEBERG_OPTIONS
from gapless.tables.timeseries.table import TimeSeriesTable

_OWN_WORDS = MappingProxyType({
    **{name: f"--{name.replace('_', '-')}" for name in ("mode", "key", "order_by", "on_overlap", "create", "pipeline", "name", "generation")},
    "partition_by": "--create --partition-by",
    "storage_options": "--storage-option NAME=VALUE",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What is copied, and into what."""

    source: Annotated[
        str,
        argument(
            "SOURCE", "A table by its path or URL, or timeseries:PATH, delta:PATH, files:GLOB, or another kind of source."
        ),
    ]
    sink: Annotated[
        str,
        argument(
            "SINK",
            "The table: its path or URL, or iceberg:NAMESPACE.TABLE; with its kind before it, as in delta:PATH, where it may be missing.",
        ),
    ]
    storage_option: Annotated[
        list[str] | None, option("NAME=VALUE", "Option of the buckets, in obstore's names; may be repeated.")
    ] = None

    @property
    def source_url(self) -> str:
        """With its kind. Raises InvalidOption where none is written and no table lies there, as `sink_url`."""
        return self._with_kind(self.source, SOURCE_KINDS)

    @property
    def sink_url(self) -> str:
        """With its kind."""
        return self._with_kind(self.sink, SINK_KINDS)

    def check(self, source_options: Mapping[str, Any], sink_options: Mapping[str, Any]) -> None:
        """Raise InvalidOption where a table would be copied into itself; the options say which catalog a name is one of."""
        same = self.source_kind == self.sink_kind and _catalog(source_options) == _catalog(sink_options)
        if same and parse_location(self.source_place) == parse_location(self.sink_place):
            raise InvalidOption(
                f"{self.sink} is the source and the sink",
                why="Each row that is written would be read again",
                fix="Name another table",
                option="url",
                value=self.sink,
            )

    @property
    def source_name(self) -> str:
        """What the source is called."""
        return _name_of(self.source_place)

    @property
    def sink_name(self) -> str:
        """What the table is called."""
        return _name_of(self.sink_place)

    @property
    def source_kind(self) -> str:
        """What it is."""
        return split_url(self.source_url, SOURCE_KINDS)[0]

    @property
    def source_place(self) -> str:
        """Where it lies."""
        return split_url(self.source_url, SOURCE_KINDS)[1]

    @property
    def sink_kind(self) -> str:
        """What it is, or becomes. Raises InvalidOption for what is no table."""
        return split_url(self.sink_url, SINK_KINDS)[0]

    @property
    def sink_place(self) -> str:
        """Where it lies."""
        return split_url(self.sink_url, SINK_KINDS)[1]

    def storage_of(self, place: str, named: Sequence[str] = ()) -> dict[str, str] | None:
        """The storage options, where the place is in a bucket, or one of the places that are names in a catalog (`named`). Where neither the
        source nor the sink is, every place has them, and refuses them. Raises InvalidOption, InvalidPath.
        """
        given = parse_mapping("storage-option", self.storage_option) or None

        def takes_them(one: str) -> bool:
            return one in named or _is_bucket(one)

        return given if takes_them(place) or not any(map(takes_them, (self.source_place, self.sink_place))) else None

    def _with_kind(self, text: str, kinds: Sequence[str]) -> str:
        given = parse_mapping("storage-option", self.storage_option) if _is_bucket(text) else None
        return ":".join(place_of(text, kinds, given))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Where the source begins, and what it gives."""

    start: Annotated[
        str | None,
        option("PLACE", "Of a table: earliest, latest or a version; else all rows of the newest version, then what follows."),
    ] = None
    until: Annotated[int | None, option("VERSION", "Of a table: the last version that is read.")] = None
    on_change: Annotated[
        str | None, option("POLICY", "Commits that changed or removed rows: error (the default), skip them whole, or tell.")
    ] = None
    source_option: Annotated[
        list[str] | None,
        option("NAME=VALUE", "Another option of the source, such as on_schema_change=evolve; may be repeated."),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """For `gl.connect.source`. Raises InvalidOption."""
        start: object = int(self.start) if self.start is not None and self.start.isdecimal() else self.start
        named = {"start": start, "until": self.until, "on_change": self.on_change}
        return {
            **{name: value for name, value in named.items() if value is not None},
            **_others("source-option", self.source_option),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What becomes of the rows in the table."""

    mode: Annotated[str, option("MODE", "append (the default), upsert, overwrite, delete, or cdc with --on-change tell.")] = (
        "append"
    )
    key: Annotated[
        list[str] | None, option("COLUMN", "Upsert, delete, cdc: a column that tells rows apart; may be repeated.")
    ] = None
    order_by: Annotated[
        list[str] | None, option("COLUMN", "Upsert, delete, cdc: a column that tells newer from older rows; may be repeated.")
    ] = None
    on_overlap: Annotated[
        str | None, option("POLICY", "Appends to a time series: reject, skip, replace or allow buckets it covers.")
    ] = None
    sink_option: Annotated[
        list[str] | None,
        option("NAME=VALUE", "Another option of the sink, such as catalog_uri=sqlite:///catalog.db; may be repeated."),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """For `gl.connect.sink`. Raises InvalidOption for what means nothing in this mode."""
        if self.mode in ("append", "overwrite"):
            by_key = {"key": self.key, "order-by": self.order_by}
            refuse_given(by_key, f"Rows of mode {self.mode} are told apart by nothing", "Say --mode upsert, delete or cdc too")
        lists = {"key": self.key, "order_by": self.order_by}
        given = {name: columns for name, columns in lists.items() if columns}
        overlap = {} if self.on_overlap is None else {"on_overlap": self.on_overlap}
        return {"mode": self.mode, **given, **overlap, **_others("sink-option", self.sink_option, _OWN_WORDS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """How a missing table is made."""

    create: Annotated[bool, flag("--create", "Make the table where it is missing, with the columns that come.")] = False
    index: Annotated[str | None, option("COLUMN", "Of a new time series; that of the source where not given.")] = None
    bucket: Annotated[str | None, option("LENGTH", "What its coverage counts in; that of the source where not given.")] = None
    entity: Annotated[list[str] | None, option("COLUMN", "What tells its series apart; may be repeated.")] = None
    partition_by: Annotated[
        list[str] | None,
        option("COLUMN", "Of a new Delta, Iceberg (also day(ts), bucket(16, id), …) or Hudi table; may be repeated."),
    ] = None

    def given(self, places: Places, named: Sequence[str] = ()) -> dict[str, Any] | None:
        """For `gl.connect.sink`; None where nothing is to be made. Raises InvalidOption."""
        of_series = {"index": self.index, "bucket": self.bucket, "entity": self.entity}
        if not self.create:
            refuse_given({**of_series, "partition-by": self.partition_by}, "It says how a table is made", "Say --create too")
            return None
        if places.sink_kind != "timeseries":
            article = "An" if places.sink_kind == "iceberg" else "A"
            why = f"{article} {places.sink_kind.capitalize()} table has no index"
            refuse_given(of_series, why, "Leave it out, or say --partition-by")
            return {"partition_by": self.partition_by} if self.partition_by else {}
        refuse_given({"partition-by": self.partition_by}, "It is about tables of other formats, such as Delta tables")
        found = {**_index_of(places, named), **{name: value for name, value in of_series.items() if value}}
        for name in ("index", "bucket"):
            if name not in found:
                raise InvalidOption(
                    f"--create makes no time series without --{name}",
                    why="The source is no time series that it could be taken from",
                    fix="Say such as --index ts --bucket 1h",
                    option=name,
                    value=None,
                )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineName:
    """What tells this pipeline from others into the same table, and what it remembers."""

    pipeline: Annotated[str | None, option("NAME", "Whose rows these are; the name of the source where not given.")] = None
    name: Annotated[str, option("NAME", "Which of the pipeline's sinks this is; main where not given.")] = "main"
    generation: Annotated[
        int, option("N", "One more each time the pipeline is made anew from nothing; 1 where not given.", least=1)
    ] = 1
    checkpoints: Annotated[
        str | None,
        option("FOLDER", "Where it remembers how far it came; beside the sink where not given, a table in a catalog needs it."),
    ] = None

    def folder(self, pipeline: str, place: str, *, named: bool) -> str:
        """The folder of the checkpoints of a sink at a place. Raises InvalidOption where that is a name in a catalog, and none is given."""
        if self.checkpoints:
            return self.checkpoints
        if named:
            raise InvalidOption(
                f"there is no folder beside {place}, which is a name in a catalog",
                why="The copy remembers in a folder how far it came",
                fix="Say where, such as --checkpoints trips.checkpoints, and the same the next time",
                option="checkpoints",
                value=None,
            )
        return f"{place.rstrip('/')}.checkpoints/{pipeline}-{self.name}-{self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """When rows are committed, and how long it runs."""

    follow: Annotated[bool, flag("--follow", "Go on as the source grows, until Ctrl-C, which ends it at a checkpoint.")] = False
    poll_interval: Annotated[
        str | None, option("TIME", "--follow: how long to wait where nothing came, such as 5s; 1s where not given.")
    ] = None
    checkpoint_rows: Annotated[
        int | None, option("N", "Commit after so many rows at the latest; 1,000,000 where not given.", least=1)
    ] = None
    checkpoint_every: Annotated[
        str | None, option("TIME", "--follow: collect rows for so long before they are committed, such as 1m.")
    ] = None

    metrics_port: Annotated[
        int | None, option("PORT", "Answer http://127.0.0.1:PORT/metrics with counts for Prometheus while it runs.", least=0)
    ] = None

    def __post_init__(self) -> None:
        """Raise InvalidOption for what means nothing without --follow."""
        if not self.follow:
            refuse_given(
                {"poll-interval": self.poll_interval}, "Without --follow the source is read to its end, once", "Say --follow"
            )

    @property
    def limits(self) -> dict[str, Any]:
        """For `gl.connect.Runner`. Raises InvalidOption."""
        rows = {} if self.checkpoint_rows is None else {"checkpoint_rows": self.checkpoint_rows}
        every = None if self.checkpoint_every is None else _seconds("--checkpoint-every", self.checkpoint_every)
        return {**rows, "checkpoint_seconds": every}

    @property
    def interval(self) -> float:
        """Seconds between polls. Raises InvalidOption."""
        return 1.0 if self.poll_interval is None else _seconds("--poll-interval", self.poll_interval)


# -- steps ---------------------------------------------------------------------------------------------------------------


def in_catalog(options: Mapping[str, Any]) -> bool:
    """Whether these options of a source or sink name a catalog, so that its place is a name in it."""
    return bool(_catalog(options)) and options.get("catalog_type") not in ("directory", "hadoop")


def _catalog(options: Mapping[str, Any]) -> dict[str, Any]:
    """Which Iceberg catalog options name."""
    return {name: value for name, value in options.items() if name in ICEBERG_OPTIONS}


def _others(
    option_name: str, texts: Sequence[str] | None, elsewhere: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Options by their names in Python; raises InvalidOption for those that have an option of their own (`elsewhere`)."""
    found = parse_mapping(option_name, texts)
    for name, value in found.items():
        if name in elsewhere:
            raise InvalidOption(
                f"--{option_name} {name} means nothing here",
                why="It has an option of its own",
                fix=f"Say {elsewhere[name]}",
                option=option_name,
                value=value,
            )
    return {name: _value(text) for name, text in found.items()}


def _index_of(places: Places, named: Sequence[str]) -> dict[str, Any]:
    """The index of the source, for a table that is made like it; nothing where it is no time series."""
    if places.source_kind != "timeseries":
        return {}
    place = places.source_place
    spec = TimeSeriesTable.open(place, storage_options=places.storage_of(place, named)).index
    bucket = format_bucket(spec.bucket)
    return {
        "index": spec.column,
        "bucket": int(bucket) if bucket.isdecimal() else bucket,
        "entity": list(spec.entity),
        "index_type": spec.type,
        "timezone": spec.timezone,
    }


def _is_bucket(place: str) -> bool:
    return parse_location(place).kind not in ("local", "memory")


def _name_of(place: str) -> str:
    """The last part of a path or URL."""
    return place.rstrip("/").rpartition("/")[2] or place


def _seconds(option_name: str, text: str) -> float:
    """A length of time in seconds. Raises InvalidOption, for 0 too."""
    seconds = parse_duration(text, option_name) / timedelta(seconds=1)
    if not seconds:
        raise InvalidOption(
            f"{option_name} {text} is no time", fix="Write such as 1s", option=option_name.strip("-"), value=text
        )
    return seconds


def _value(text: str) -> object:
    """An option of a source as it was typed: a whole number, true or false, or a text."""
    return int(text) if text.isdecimal() else {"true": True, "false": False}.get(text, text)
