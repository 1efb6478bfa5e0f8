"""Filters as values: `where` to a predicate, pruning by statistics, read plans. Pure."""
