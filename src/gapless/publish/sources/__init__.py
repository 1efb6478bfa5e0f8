"""What publishers need, of each kind of table."""
