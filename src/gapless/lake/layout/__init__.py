"""What lies where in a lake, and what the documents in it say. Pure."""
