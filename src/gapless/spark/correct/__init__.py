"""Corrections, compaction and filling of gaps by executors, committed by the driver."""
