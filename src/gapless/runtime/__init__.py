"""Clock, ids, retry, and the driver that answers the requests of the core."""
