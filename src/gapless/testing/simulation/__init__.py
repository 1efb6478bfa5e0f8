"""Simulated histories of tables by many writers, all of it decided by a seed."""
