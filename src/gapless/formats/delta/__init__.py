"""The Delta Lake log (PROTOCOL.md): actions, codecs, replay, features, conflicts."""
