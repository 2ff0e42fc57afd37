"""Drafters: each proposes, none decides. They register as entry points, as third-party drafters do."""
