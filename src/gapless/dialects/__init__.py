"""Log formats: paths, actions, codec and rules of each, strangers to each other."""
