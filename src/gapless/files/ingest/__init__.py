"""Input files and Python rows as Arrow record batches."""
