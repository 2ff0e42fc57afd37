"""``skipstone bench efficiency``: how near the engine is to what the machine allows, one part a file."""
