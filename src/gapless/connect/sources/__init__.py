"""Sources: the contract of incremental reads, and what can be read so."""
