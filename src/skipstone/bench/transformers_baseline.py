"""transformers' own greedy ``generate`` on the very weights a network runs."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from ..errors import UsageError
from ..hf.network import context_of
from ..request import Request
from ..stopping import StopTokens
from .recorder import best_scores


@dataclass(frozen=True)
class BaselineText:
    """Output tokens, the best scores of each, and seconds from prompt to last token."""

    tokens: list[int]
    best: list[dict[int, float]]
    seconds: float


def transformers_generate(model: Any, request: Request, *, scores: bool = False, **more: Any) -> BaselineText:
    """Run ``model.generate`` for a greedy request; ``more`` goes to it as it is (assistant_early_exit=8, …).

    Raises UsageError where the request samples, which transformers does with other random numbers than ours.
    """
    sampling = request.sampling
    if sampling.temperature > 0:
        raise UsageError("transformers samples with other random numbers: compare with it at temperature 0")
    prompt = torch.tensor([list(request.prompt)], device=model.device)
    began = perf_counter()
    result = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        generation_config=_config(model, request, scores),
        **more,
    )
    seconds = perf_counter() - began
    best = best_scores(torch.cat([s.float() for s in result.scores])) if scores else []
    return BaselineText(result.sequences[0, len(request.prompt) :].tolist(), best, seconds)


def _config(model: Any, request: Request, scores: bool) -> Any:
    import transformers

    config: Any = transformers.GenerationConfig
    eos = sorted(token for rule in request.stops if isinstance(rule, StopTokens) for token in rule.tokens)
    room = context_of(model.config.get_text_config()) - len(request.prompt)
    return config(
        max_new_tokens=min(request.max_new_tokens, room),
        do_sample=False,
        repetition_penalty=request.sampling.repetition_penalty,
        eos_token_id=eos,  # None would be replaced by the model's own
        pad_token_id=eos[0] if eos else 0,
        return_dict_in_generate=True,
        output_scores=scores,
    )
