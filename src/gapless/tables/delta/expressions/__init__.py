"""SQL expressions over rows of Delta tables, evaluated by DuckDB."""
