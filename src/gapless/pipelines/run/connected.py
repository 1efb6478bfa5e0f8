"""Sources of `gapless.connect` in a pipeline: which one options describe, and whether it can be gone on with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless import connect
from gapless.connect.refusals import refuse_pipeline
from gapless.connect.sources.http_pages import (
    AfterValue,
    LinkHeader,
    NextLink,
    Offset,
    PageNumber,
    PageToken,
    Pagination,
    SinglePage,
)
from gapless.errors import InvalidOption, SourceCannotReplay, one_of
from gapless.pipelines.definitions import Defined
from gapless.pipelines.options.catalogs import catalog_options, iceberg_url
from gapless.pipelines.options.spec import behind
from gapless.pipelines.options.storage import storage_options
from gapless.spark.connected.described import DescribedSource
from gapless.spark.writing.append import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTED = ("iceberg", "hudi", "http")
"""Types of sources that are read by `gapless.connect`."""
_PAGES: Mapping[str, tuple[Callable[..., Pagination], Mapping[str, str], tuple[str, ...]]] = {
    "none": (SinglePage, {}, ()),
    "after_value": (AfterValue, {"parameter": "parameter", "column": "column"}, ("parameter", "column")),
    "page_token": (PageToken, {"parameter": "parameter", "path": "path"}, ("parameter", "path")),
    "next_link": (NextLink, {"path": "path"}, ()),
    "link_header": (LinkHeader, {}, ()),
    "page_number": (PageNumber, {"parameter": "parameter", "first_page": "number"}, ()),
    "offset": (Offset, {"parameter": "parameter", "page_size": "limit", "size_parameter": "limit_parameter"}, ()),
}
"""By the option's value: what is made, of which options under which names, and which it needs."""


def described(
    spark: SparkSession, defined: Defined, columns: str, *, streaming: bool, kept: str | None = None
) -> DescribedSource:
    """The source that a definition describes: a stream, or what is there now; a table is asked for its columns, and its newest version is
    what is there. `columns` are those that are declared, as DDL, and `kept` is the place for rows of planned batches.

    Raises InvalidOption, and as `gl.connect.source` does.
    """
    options = defined.options
    if defined.type == "http":
        if not columns:
            raise InvalidOption(
                f"the columns of {defined.name!r} are not declared",
                why="JSON does not say the types of its values",
                fix="Write them behind the name: (id BIGINT, name STRING)",
                option="columns",
                value=None,
            )
        schema = arrow_schema(spark.createDataFrame([], columns))
        url, given = options["url"], _http_options(options, schema)
    else:
        url, given = _table_url(defined), _table_options(defined)
        schema, version = _newest(url, given)
        if not streaming:
            given = {**given, "mode": "snapshot", "version": version}
    return DescribedSource(url=url, options=given, schema=schema, kept=kept, max_rows=options["max_rows"])


def check_replays(defined: Defined) -> None:
    """Raise SourceCannotReplay for a source whose cursor does not say which rows come next."""
    if defined.type != "http" or _pagination(defined.options).replays:
        return
    raise refuse_pipeline(
        SourceCannotReplay,
        f"the source {defined.name!r} cannot be gone on with: pagination={defined.options['pagination']!r} tells pages by their place",
        "A row that the service puts in or takes out moves all behind it to other pages: some would come twice, others never",
        "Say pagination='after_value' or 'page_token' where the service has that, or mode='batch', which reads all of it in each run",
    )


def _newest(url: str, options: Mapping[str, Any]) -> tuple[pa.Schema, int]:
    """The columns of a table's newest version, with the kind of change where that is told, and its number."""
    telling = {name: options[name] for name in options if name not in ("start", "on_missing_versions")}
    with connect.source(url, **telling) as source:
        source.start()
        schema, version = source.schema, source.cursor.table_version
    if not schema.names:
        raise InvalidOption(
            f"the columns of {url!r} are not known yet",
            why="Nothing was committed to the table that would say them",
            fix="Run the pipeline once it holds rows",
            option="location",
            value=url,
        )
    return schema, version or 0


def _table_url(defined: Defined) -> str:
    return iceberg_url(defined.options) if defined.type == "iceberg" else f"hudi:{defined.options['location']}"


def _table_options(defined: Defined) -> dict[str, Any]:
    options = defined.options
    given: dict[str, Any] = {
        "on_change": "tell" if options["change_data_feed"] else options["on_data_change"],
        "on_missing_versions": options["on_missing_versions"],
        "on_schema_change": "evolve",  # rows are fitted to the columns that Spark was told
    }
    if options["start"] != "all" and options["mode"] == "continuous":
        given["start"] = options["start"]
    if storage := storage_options(options):
        given["storage_options"] = storage
    if defined.type == "iceberg":
        given |= catalog_options(options)
        if options["ref"] is not None:
            given["ref"] = options["ref"]
    return given


def _http_options(options: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    passed = {"headers": behind("header.", options), "params": behind("param.", options)}
    given: dict[str, Any] = {"records": options["records"], "pagination": _pagination(options), "schema": schema, **passed}
    if options["start"] is not None:
        given["start"] = options["start"]
    if options["timeout"] is not None:
        given["timeout_s"] = options["timeout"].total_seconds()
    return given


def _pagination(options: Mapping[str, Any]) -> Pagination:
    """How pages follow each other. Raises InvalidOption for an option that this way lacks, or does not have."""
    kind = one_of("pagination", options["pagination"], tuple(_PAGES))
    make, names, needed = _PAGES[kind]
    for name in needed:
        if options[name] is None:
            raise InvalidOption(
                f"pagination={kind!r} needs {name}=",
                why="Without it no page but the first can be asked for",
                fix=f"Add {name}='…'",
                option=name,
                value=None,
            )
    for name in ("parameter", "column", "path", "first_page", "page_size", "size_parameter"):
        if options[name] is not None and name not in names:
            fitting = [one for one, (_, known, _) in _PAGES.items() if name in known]
            raise InvalidOption(
                f"{name}={options[name]!r} is no option of pagination={kind!r}",
                why=f"It belongs to {' and '.join(map(repr, fitting))}",
                fix="Leave it out",
                option=name,
                value=options[name],
            )
    return make(**{theirs: options[ours] for ours, theirs in names.items() if options[ours] is not None})
