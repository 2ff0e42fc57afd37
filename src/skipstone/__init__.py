"""Skipstone: LLMs that generate faster with their own layers."""
