"""DataFrames into tables: written by executors, committed once by the driver."""
