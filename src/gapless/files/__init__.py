"""Parquet and text files of rows: ingest, sort, pages, write, read, compare, adopt."""
