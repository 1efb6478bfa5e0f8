"""MongoDB's aggregation pipelines: read into stages, and run over documents. Pure: what they read is handed in."""
