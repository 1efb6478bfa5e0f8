"""Care of tables: each act is a pure plan over values, and a thin rim that gathers facts and applies it."""
