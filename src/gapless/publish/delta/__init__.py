"""The Delta log of a published table."""
