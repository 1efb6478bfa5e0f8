"""Copies of a lake: pushed to and pulled from a directory or a bucket, compared, and reconciled."""
