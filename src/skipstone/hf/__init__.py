"""Hugging Face models as networks under layer plans: the only inference code that imports transformers."""
