"""One thread (tiny tensors crawl with more), and property tests that take the time they take."""

import torch
from hypothesis import Phase, settings

torch.set_num_threads(1)

settings.register_profile(
    "quick",
    deadline=None,
    max_examples=25,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # what is drawn is small; shrinking it takes minutes
)
# The same examples on every machine: what is checked does not depend on luck. `make explore` draws new ones.
settings.register_profile("fixed", settings.get_profile("quick"), derandomize=True)
settings.register_profile("explore", settings.get_profile("quick"), max_examples=100)
settings.load_profile("fixed")
