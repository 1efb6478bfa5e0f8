"""Who takes part, in the order in which they are shown."""

from __future__ import annotations

FLOOR, SYNCED, OURS = "pyarrow", "pyarrow, synced", "gapless"
CONTENDERS = {
    FLOOR: "arrow",
    SYNCED: "arrow_synced",
    OURS: "ours",
    "gapless, fastest": "ours_fastest",
    "gapless, inlined": "ours_inlined",
    "ttf 0.9.0": "ttf",
    "deltalake": "delta",
    "pyiceberg": "iceberg",
    "arcticdb": "arctic",
    "lance": "lance",
    "duckdb": "duck",
    "chdb": "clickhouse",
    "postgres": "postgres",
    "delta on spark": "spark_delta",
}
"""By the name that is shown, the module under `bench/peers` that speaks for it."""
OWN = {FLOOR, SYNCED, OURS, "gapless, fastest", "gapless, inlined", "delta on spark"}
"""Those that run in this environment and not in the peers'."""
