"""Frozen values that every layer speaks in, and the protocols Store, Clock and IdSource."""
