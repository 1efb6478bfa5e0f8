"""Parquet below the row group: pages, column chunks, encodings, footers (docs/decisions/0026)."""
