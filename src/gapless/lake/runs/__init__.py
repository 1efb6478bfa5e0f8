"""What a run is beside its rows: what it is asked for, and how it gets on."""
