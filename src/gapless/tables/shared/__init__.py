"""What tables of every kind do alike."""
