"""Tables of each kind, as sinks need them."""
