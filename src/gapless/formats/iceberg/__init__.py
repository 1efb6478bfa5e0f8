"""What an Iceberg table's metadata says of files that lie elsewhere: columns with their field ids, bounds, snapshots. Pure (the table spec)."""
