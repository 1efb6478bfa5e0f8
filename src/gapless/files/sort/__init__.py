"""Rows put into the order of their table, in bounded memory."""
