"""Rows and files that users hand to tables of every kind."""
