"""The Hudi timeline of a published table."""
