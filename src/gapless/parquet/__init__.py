"""Arrow in, Parquet files and their facts out; read tasks in, Arrow out."""
