"""The time-series log: our own format, a superset of protocol 7."""
