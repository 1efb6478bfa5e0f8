"""Simulated histories of pipelines between two tables: several processes each, killed, hung and run again."""
