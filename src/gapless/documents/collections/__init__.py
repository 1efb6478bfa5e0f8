"""Collections of documents, each a Delta table."""
