"""Files written elsewhere, or by us, whose bytes are taken over as they are."""
