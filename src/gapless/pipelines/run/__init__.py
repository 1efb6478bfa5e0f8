"""Pipelines run on Spark: DataFrames of sources, streaming queries, batches into sinks, and the state of a run."""
