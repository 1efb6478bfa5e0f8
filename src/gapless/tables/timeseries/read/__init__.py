"""Scans, coverage, history, versions and the change feed of time-series tables."""
