"""Commits of time-series tables as JSON."""
