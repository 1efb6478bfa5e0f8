"""Sources of `gapless.connect` as DataFrames and streams of Spark."""
