"""The texts a sweep looks at: what the model itself says to prompts, decoded plainly."""

from __future__ import annotations

from dataclasses import dataclass

from ...text.language_model import LanguageModel, Prompt
from ...text.settings import GenerationSettings
from ..efficiency.decoding import Job, decode
from ..timing import Clock

FEWEST = 16  # tokens: a text that ends sooner is a draft or two


@dataclass(frozen=True)
class Text:
    """``job`` is how it is decoded, ``output`` what came out, at most ``budget`` tokens."""

    job: Job
    output: tuple[int, ...]
    budget: int

    @property
    def context(self) -> int:
        """Committed tokens of a step, in the mean."""
        return len(self.job.prompt) + len(self.output) // 2


def job_of(model: LanguageModel, prompt: Prompt, tokens: int) -> Job:
    """Ends as a user's text does. Raises RequestError for a prompt that cannot be continued."""
    request = model.request(prompt, GenerationSettings.of(max_new_tokens=tokens, seed=0))
    request.check(model.network.vocab_size, model.network.context)
    return Job(request.prompt, request.max_new_tokens, request.sampling, request.stops)


def generated(model: LanguageModel, job: Job, clock: Clock) -> Text:
    budget = min(job.new_tokens, model.network.context - len(job.prompt))
    return Text(job, tuple(decode(model.network, "none", job, clock).tokens), budget)
