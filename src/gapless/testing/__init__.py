"""For those who extend gapless: contracts to subclass, strategies and faulty stores."""
