"""Tables as sources: what each version's commit did to the rows, from a place on."""
