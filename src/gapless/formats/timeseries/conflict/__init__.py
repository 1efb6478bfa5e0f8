"""Which changes of a time-series table may follow which."""
