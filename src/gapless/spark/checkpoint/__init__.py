"""Checkpoint folders of Spark queries, looked at before a query is started."""
