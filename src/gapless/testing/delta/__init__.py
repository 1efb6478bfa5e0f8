"""Earlier paths of simulated Delta tables."""
