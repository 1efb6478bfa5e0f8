"""Publication of tables of every kind in other formats, as their handles see it."""
