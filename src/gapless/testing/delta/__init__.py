"""Delta tables, simulated."""
