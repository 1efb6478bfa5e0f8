"""Pipelines in SQL: sources, queries and sinks, which Spark runs."""
