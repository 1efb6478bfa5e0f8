"""Iceberg tables that others own, too, in a catalog or a directory: read, and written in two phases. Needs pyiceberg."""
