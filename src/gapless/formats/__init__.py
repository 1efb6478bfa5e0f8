"""What each log format is. Pure; formats know nothing of each other."""
