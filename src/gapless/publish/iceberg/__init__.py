"""The Iceberg metadata of a published table."""
