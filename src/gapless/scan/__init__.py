"""Pure: which segments and row groups answer a read, split into picklable tasks."""
