"""The types of lookup tables, and the options of each."""

from __future__ import annotations

from gapless.pipelines.options.spec import OptionSpec, TypeSpec
from gapless.pipelines.options.storage import AWS_REGION
from gapless.spark.setup.options import STORAGE_PREFIX

_TTL = OptionSpec(
    name="ttl", kind="duration", about="How long rows are kept before they are read anew; with each batch where not given"
)
_LOCATION = OptionSpec(name="location", required=True, about="The path or URL of the table, the file or the folder")

LOOKUPS = {
    name: TypeSpec(
        name=name,
        about=about,
        options=(_LOCATION, _TTL, *more),
        passed=(STORAGE_PREFIX,) if name in ("timeseries", "delta") else (),
    )
    for name, about, more in (
        ("timeseries", "A time-series table.", (AWS_REGION,)),
        ("delta", "A Delta table.", (AWS_REGION,)),
        ("parquet", "Parquet files.", ()),
        ("json", "Files of JSON lines.", ()),
        (
            "csv",
            "CSV files.",
            (OptionSpec(name="header", kind="flag", default=True, about="Whether the first line names the columns"),),
        ),
    )
}
"""By the name of the type."""
