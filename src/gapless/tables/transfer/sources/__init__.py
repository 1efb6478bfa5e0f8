"""Tables of other formats as files with rows: Delta, Iceberg, Hudi, and plain Parquet."""
