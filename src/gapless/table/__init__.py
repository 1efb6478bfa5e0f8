"""What users hold: a table, its reports and its lazy reads."""
