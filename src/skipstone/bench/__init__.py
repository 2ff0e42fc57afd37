"""Measuring and comparing: equality, speed, and what others do on the same weights."""
