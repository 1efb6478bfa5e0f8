"""What users hold: tables of each kind, and the loops that they share."""
