"""The Delta dialect: Delta Lake's protocol on the log engine. Pure."""
