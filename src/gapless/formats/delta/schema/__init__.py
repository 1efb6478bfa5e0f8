"""Delta's schemas and types, column mapping and variants."""
