"""Time-series tables: coverage, overlap-safe appends, corrections, gaps."""
