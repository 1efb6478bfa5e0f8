"""Delta's variant type: values as Parquet's variant encoding has them, whole or with parts in columns of their own. Pure."""
