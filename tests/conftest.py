"""One thread (tiny tensors crawl with more), and property tests that take the time they take."""

import os

import torch
from hypothesis import Phase, settings

torch.set_num_threads(1)

settings.register_profile(
    "quick",
    deadline=None,
    max_examples=25,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # what is drawn is small; shrinking it takes minutes
)
settings.register_profile("ci", settings.get_profile("quick"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "quick")
