"""Coverage as a picture: heat maps for the terminal, PNG and HTML."""
