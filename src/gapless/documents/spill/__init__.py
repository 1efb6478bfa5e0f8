"""What stages hold, in memory up to a limit and beyond it in a file: rows in order, rows as they came, rows by parts."""
