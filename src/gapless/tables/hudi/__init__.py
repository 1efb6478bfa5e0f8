"""Copy-on-write Hudi tables that others own, too: their timeline read, and commits put into it under a lock."""
