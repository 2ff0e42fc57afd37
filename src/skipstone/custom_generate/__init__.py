"""``skipstone.decode``: Skipstone inside transformers' own ``generate``."""
