"""The commands of lakes."""
