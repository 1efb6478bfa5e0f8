"""Filters of documents, as MongoDB's query language has them."""
