"""What a run is beside its rows: how it gets on."""
