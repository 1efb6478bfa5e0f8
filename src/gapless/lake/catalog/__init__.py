"""Catalogs of lakes, in SQLite and in PostgreSQL: what manifests say, and the leases of pipelines."""
