"""Sinks: the contract of two-phase commit, and the tables that keep it."""
