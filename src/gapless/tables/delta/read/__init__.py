"""Scans, history, versions and the change data feed of Delta tables."""
