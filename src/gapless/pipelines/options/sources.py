"""The types of sources, and the options of each."""

from __future__ import annotations

from gapless.pipelines.options.catalogs import CATALOG, CATALOG_PREFIX
from gapless.pipelines.options.spec import OptionSpec, TypeSpec
from gapless.pipelines.options.storage import AWS_REGION
from gapless.spark.setup.options import STORAGE_PREFIX

_MODE = OptionSpec(
    name="mode",
    kind="choice",
    choices=("continuous", "batch"),
    default="continuous",
    about="'continuous' gives what is new with each batch, 'batch' all that is there as the run begins",
)
_POLL = OptionSpec(
    name="poll_interval",
    kind="duration",
    about="How long a continuous run waits after a batch before it looks again, such as '10 seconds'; at once where not given",
)
_MAX_FILES = OptionSpec(name="max_files", kind="count", about="The most files in one batch; all that there are where not given")
_LOCATION = OptionSpec(name="location", required=True, about="The path or URL of the table")
_FROM = OptionSpec(
    name="start",
    kind="text",
    default="all",
    about="Where a new pipeline begins: with 'all' rows of now, the 'earliest' version that is kept, a version by its number, or 'latest',"
    " what comes from now on",
)
_ON_CHANGE = (
    OptionSpec(
        name="on_data_change",
        kind="choice",
        choices=("error", "skip"),
        default="error",
        about="What of commits that change rows that were there, without the change data feed: stop, or pass over them",
    ),
    OptionSpec(
        name="on_missing_versions",
        kind="choice",
        choices=("error", "earliest"),
        default="error",
        about="What of versions that expired before they were read: stop, or go on without them",
    ),
)
_TABLE = (
    _LOCATION,
    _MODE,
    _POLL,
    _FROM,
    OptionSpec(
        name="change_data_feed",
        kind="flag",
        default=False,
        about="Rows of the change data feed: what every version changed, with _change_type, _commit_version and _commit_timestamp",
    ),
    *_ON_CHANGE,
    _MAX_FILES,
    AWS_REGION,
)
_MAX_ROWS = OptionSpec(
    name="max_rows", kind="count", default=1_000_000, about="The most rows in one batch, which the driver holds in memory"
)
_CONNECTED = (
    _MODE,
    _POLL,
    OptionSpec(
        name="start",
        default="all",
        about="Where a new pipeline begins: with 'all' rows of now, the 'earliest' version that is kept, a version by its number, an instant"
        " with its offset, or 'latest', what comes from now on",
    ),
    OptionSpec(
        name="change_data_feed",
        kind="flag",
        default=False,
        about="What every version changed: each row with its _change_type, 'insert', 'update_preimage', 'update_postimage' or 'delete'",
    ),
    *_ON_CHANGE,
    _MAX_ROWS,
)
_PAGINATION = OptionSpec(
    name="pagination",
    kind="choice",
    choices=("none", "after_value", "page_token", "next_link", "link_header", "page_number", "offset"),
    default="none",
    about="How pages follow each other: 'after_value' asks for the rows whose column comes after a value, 'page_token' for the page of a token;"
    " 'next_link', 'link_header', 'page_number' and 'offset' are pages that cannot be asked for again, so that they are read with mode='batch'"
    " alone, as 'none', one page, is",
)
_HTTP = (
    OptionSpec(name="url", required=True, about="The URL of the first page, of JSON"),
    OptionSpec(
        name="records",
        default="",
        about="The path of the list of rows in a page, such as 'data.items'; the page itself where not given",
    ),
    _PAGINATION,
    OptionSpec(
        name="parameter",
        about="The parameter of the query that names a page: the value of the column, the token, the page's or the first row's number",
    ),
    OptionSpec(
        name="column", about="With 'after_value': the column of the rows that they are asked for by, and which is unique"
    ),
    OptionSpec(name="path", about="With 'page_token' and 'next_link': where a page has the token or the URL of the next one"),
    OptionSpec(name="first_page", kind="number", about="With 'page_number': the number of the first page; 1 where not given"),
    OptionSpec(name="page_size", kind="count", about="With 'offset': how many rows are asked for; 100 where not given"),
    OptionSpec(name="size_parameter", about="With 'offset': the parameter that says how many; 'limit' where not given"),
    OptionSpec(
        name="start",
        about="Where a new pipeline begins: with 'after_value' the value to begin after, with 'page_token' a token; else all",
    ),
    OptionSpec(name="timeout", kind="duration", about="How long to wait for an answer; 30 seconds where not given"),
    _MODE,
    _POLL,
    _MAX_ROWS,
)
_FILES = (
    OptionSpec(name="location", required=True, about="The folder, or a pattern of paths: what is put there is read once"),
    _MODE,
    _POLL,
    _MAX_FILES,
)

SOURCES = {
    one.name: one
    for one in (
        TypeSpec(
            name="timeseries",
            about="A time-series table: rows as they are appended, or its change data feed.",
            options=_TABLE,
            passed=(STORAGE_PREFIX,),
        ),
        TypeSpec(
            name="delta",
            about="A Delta table: rows as they are appended, or its change data feed.",
            options=_TABLE,
            passed=(STORAGE_PREFIX,),
        ),
        TypeSpec(
            name="iceberg",
            about="An Iceberg table, of a catalog or in a directory: all rows first, then what each snapshot does. Needs gapless[iceberg].",
            options=(
                *CATALOG,
                OptionSpec(name="ref", about="The branch that is followed; main where not given"),
                *_CONNECTED,
                AWS_REGION,
            ),
            passed=(CATALOG_PREFIX, STORAGE_PREFIX),
        ),
        TypeSpec(
            name="hudi",
            about="A Hudi table of either type: all rows first, then what each instant does. Needs gapless[hudi].",
            options=(_LOCATION, *_CONNECTED, AWS_REGION),
            passed=(STORAGE_PREFIX,),
        ),
        TypeSpec(
            name="http",
            about="Records of an HTTP service, page by page. The columns are declared. 'header.X' is sent as the header X, 'param.x' as the"
            " parameter x of the query. Needs gapless[http].",
            options=_HTTP,
            passed=("header.", "param."),
        ),
        TypeSpec(name="parquet", about="Parquet files: each is read once, as it comes.", options=_FILES),
        TypeSpec(
            name="json",
            about="Files of JSON lines: each is read once, as it comes. The columns are declared.",
            options=_FILES,
        ),
        TypeSpec(
            name="csv",
            about="CSV files: each is read once, as it comes. The columns are declared.",
            options=(
                *_FILES,
                OptionSpec(name="header", kind="flag", default=True, about="Whether the first line names the columns"),
                OptionSpec(name="delimiter", default=",", about="What stands between values"),
                OptionSpec(name="timestamp_format", about="Spark's pattern of instants, such as 'yyyy-MM-dd HH:mm'"),
            ),
        ),
        TypeSpec(
            name="kafka",
            about="A topic of Kafka. Columns are read from the value, declared ones or those of the schema of Avro or Protobuf; key, partition, offset, timestamp and headers are columns"
            " _key, _partition, _offset, _timestamp and _headers.",
            options=(
                OptionSpec(name="bootstrap_servers", required=True, about="Brokers, such as 'localhost:9092'"),
                OptionSpec(name="topic", required=True, about="The topic; several stand between commas"),
                OptionSpec(
                    name="format",
                    kind="choice",
                    choices=("json", "avro", "protobuf", "text", "bytes"),
                    default="json",
                    about="How values are written: JSON objects of the declared columns; records of Avro and messages of Protobuf,"
                    " without a header; 'text' and 'bytes' give one column, value, for from_avro of Spark among others",
                ),
                OptionSpec(
                    name="avro_schema",
                    about="With format='avro': the schema that values are written with, as JSON, such as '${file:orders.avsc}'",
                ),
                OptionSpec(
                    name="descriptor_file",
                    about="With format='protobuf': the file that protoc --include_imports --descriptor_set_out wrote. Needs"
                    " gapless[protobuf]",
                ),
                OptionSpec(
                    name="message", about="With format='protobuf': the full name of the messages' type, such as 'shop.Order'"
                ),
                OptionSpec(
                    name="emit_defaults",
                    kind="flag",
                    default=False,
                    about="With format='protobuf': whether a field of proto3 that has its default, which is not written, is that and not"
                    " null",
                ),
                OptionSpec(
                    name="start",
                    kind="choice",
                    choices=("all", "latest"),
                    default="all",
                    about="Where a new pipeline begins: at the oldest records that are kept, or with what comes from now on",
                ),
                OptionSpec(name="max_records", kind="count", about="The most records in one batch; all where not given"),
                OptionSpec(
                    name="on_bad_record",
                    kind="choice",
                    choices=("error", "null"),
                    default="error",
                    about="What of a value that is no JSON object of the columns, no record of the schema, no such message: stop, or give nulls",
                ),
                _MODE,
                _POLL,
            ),
            passed=("kafka.",),
        ),
        TypeSpec(
            name="rate",
            about="Made-up rows: value counts from 0, timestamp is when it was made. To try a pipeline.",
            options=(
                OptionSpec(name="rows_per_second", kind="count", default=1, about="How many rows in a second"),
                _POLL,
            ),
        ),
    )
}
"""By the name of the type."""
