"""The command line: parse, call, print. What it calls lives elsewhere."""
