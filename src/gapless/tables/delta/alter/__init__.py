"""Changes of what a Delta table is: columns, properties, constraints."""
