"""verify and repair of time-series tables."""
