"""Rows as Parquet segments, staged until their commit."""
