"""``skipstone sweep``: the exit, depth and width that draft fastest, from one pass over each text."""
