"""Apache Hudi's table format: the timeline of a copy-on-write table of version 6, its file names and its Avro schemas. Pure."""
