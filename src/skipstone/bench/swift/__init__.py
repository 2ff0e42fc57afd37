"""``skipstone bench swift``: how well the search for sublayers to skip does, one part a file."""
