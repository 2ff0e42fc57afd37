"""From text to text: prompts, templates, settings with Hugging Face names, streaming, stop strings."""
