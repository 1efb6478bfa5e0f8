"""The language of pipelines, as values: text in, statements out."""
