"""Times as texts: formats, lengths of time, and what is said of them."""
