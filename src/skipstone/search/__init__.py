"""Finding out which sublayers a draft can do without (SWIFT), while text is generated."""
