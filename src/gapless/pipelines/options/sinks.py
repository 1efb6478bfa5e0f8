"""The types of sinks, and the options of each."""

from __future__ import annotations

from gapless.pipelines.options.catalogs import CATALOG, CATALOG_PREFIX
from gapless.pipelines.options.spec import OptionSpec, TypeSpec
from gapless.pipelines.options.storage import AWS_REGION
from gapless.spark.setup.options import STORAGE_PREFIX

_LOCATION = OptionSpec(name="location", required=True, about="The path or URL of the table; it is made where nothing is there")
_MODE = OptionSpec(
    name="mode",
    kind="choice",
    choices=("append", "upsert", "complete"),
    about="'append' adds rows; 'upsert' has them take the place of those with their key; 'complete' has the answer of each batch take the"
    " place of all rows. Where not given: complete for a query that aggregates without a watermark, upsert where a key is given, else append",
)
_KEY = OptionSpec(name="key", kind="names", about="With mode='upsert': the columns that tell rows apart")
_FILE_SIZE = OptionSpec(name="target_file_size", kind="size", about="About how large data files become, such as '128 MiB'")
_OF_SINKS = (
    _MODE,
    _KEY,
    OptionSpec(
        name="order_by",
        kind="names",
        about="With mode='upsert': the columns that tell newer rows of a key from older ones, in a batch and in the table",
    ),
    OptionSpec(
        name="schema_evolution",
        kind="choice",
        choices=("refuse", "add", "widen"),
        about="What of columns that the table lacks: 'refuse', where not given, or 'add' them; 'widen' types too",
    ),
    _FILE_SIZE,
    AWS_REGION,
)

SINKS = {
    one.name: one
    for one in (
        TypeSpec(
            name="timeseries",
            about="A time-series table: each batch is one commit, once.",
            options=(
                _LOCATION,
                OptionSpec(name="index", about="The column of instants of a table that is to be made"),
                OptionSpec(name="entity", kind="names", about="The columns that name a series, of a table that is to be made"),
                OptionSpec(name="bucket", about="The width of its buckets, such as '1h', of a table that is to be made"),
                OptionSpec(name="timezone", about="The IANA zone of its local days and months, of a table that is to be made"),
                OptionSpec(
                    name="unique",
                    kind="flag",
                    default=False,
                    about="Whether a table that is to be made refuses a second row of one identity and instant",
                ),
                _MODE,
                _KEY,
                OptionSpec(
                    name="on_overlap",
                    kind="choice",
                    choices=("allow", "error", "skip", "replace"),
                    about="What of appended rows in buckets that are covered; 'allow' where not given",
                ),
                AWS_REGION,
            ),
            passed=(STORAGE_PREFIX,),
        ),
        TypeSpec(
            name="delta",
            about="A Delta table: each batch is one commit, once.",
            options=(
                _LOCATION,
                OptionSpec(name="partition_by", kind="names", about="The partition columns of a table that is to be made"),
                _MODE,
                _KEY,
                OptionSpec(
                    name="uniform_iceberg",
                    kind="flag",
                    about="Whether each version is described as Iceberg too, by the table's property gapless.publish. As the table says where not"
                    " given",
                ),
                OptionSpec(
                    name="target_file_size",
                    kind="size",
                    about="About how large data files become, such as '128 MiB': the table's property delta.targetFileSize",
                ),
                AWS_REGION,
            ),
            passed=(STORAGE_PREFIX,),
        ),
        TypeSpec(
            name="iceberg",
            about="An Iceberg table, of a catalog or in a directory: each batch is one commit, once. Needs gapless[iceberg].",
            options=(
                *CATALOG,
                OptionSpec(
                    name="partition_by",
                    about="The partitions of a table that is to be made, such as 'DAYS(order_time), bucket(16, id)'; one that is there must have them",
                ),
                *_OF_SINKS,
            ),
            passed=(CATALOG_PREFIX, STORAGE_PREFIX),
        ),
        TypeSpec(
            name="hudi",
            about="A copy-on-write Hudi table: each batch is one commit, once. The key of an upsert is its record key.",
            options=(
                _LOCATION,
                OptionSpec(name="partition_by", kind="names", about="The partition columns of a table that is to be made"),
                *_OF_SINKS,
            ),
            passed=(STORAGE_PREFIX,),
        ),
        TypeSpec(
            name="jdbc",
            about="A table of PostgreSQL: rows and the number of their batch are one transaction, once. Needs psycopg.",
            options=(
                OptionSpec(
                    name="url", required=True, secret=True, about="The database, such as 'jdbc:postgresql://host:5432/lake'"
                ),
                OptionSpec(
                    name="table", required=True, about="The table, a schema before it or none; it is made where it is missing"
                ),
                OptionSpec(name="user", about="Who asks, where the URL does not say it"),
                OptionSpec(name="password", secret=True, about="By which password: '${env:PASSWORD}'"),
                _MODE,
                _KEY,
            ),
        ),
        TypeSpec(
            name="kafka",
            about="A topic of Kafka: each row is a record, whose value is a JSON object of its columns. Sent again where a batch comes again.",
            options=(
                OptionSpec(name="bootstrap_servers", required=True, about="Brokers, such as 'localhost:9092'"),
                OptionSpec(name="topic", required=True, about="The topic"),
                OptionSpec(name="format", kind="choice", choices=("json",), default="json", about="How values are written"),
                OptionSpec(
                    name="key",
                    kind="names",
                    about="The columns that are the record's key: the text of one, a JSON object of several. A query whose rows change needs it",
                ),
                OptionSpec(
                    name="mode",
                    kind="choice",
                    choices=("append", "upsert"),
                    about="'append' sends rows as they come; 'upsert' sends each change of a row, by its key, as a compacted topic takes it",
                ),
                OptionSpec(
                    name="delivery",
                    kind="choice",
                    choices=("at_least_once", "exactly_once"),
                    default="exactly_once",
                    about="A topic does not tell which records it has, so that 'exactly_once' is refused: say 'at_least_once'",
                ),
            ),
            passed=("kafka.",),
        ),
        TypeSpec(
            name="parquet",
            about="Parquet files in a folder, by Spark's own file sink, which keeps a list of them in _spark_metadata.",
            options=(
                OptionSpec(name="location", required=True, about="The folder"),
                OptionSpec(name="partition_by", kind="names", about="Columns that become folders"),
            ),
        ),
        TypeSpec(
            name="console",
            about="The terminal: a look at the rows of each batch. Shown again where a batch comes again.",
            options=(OptionSpec(name="rows", kind="count", default=20, about="The most rows of a batch that are shown"),),
        ),
    )
}
"""By the name of the type."""
