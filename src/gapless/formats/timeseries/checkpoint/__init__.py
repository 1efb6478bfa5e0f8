"""Log checkpoints of time-series tables, in parts that never change."""
