"""Publishing: the files of a time-series table, described a second time for readers of other formats."""
