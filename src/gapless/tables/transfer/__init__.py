"""Whole tables from elsewhere, and to elsewhere: importing foreign tables, exporting plain copies."""
