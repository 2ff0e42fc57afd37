"""The callable for ``model.generate(..., custom_generate=skipstone.decode)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import StopStringCriteria

from ..drafting import Drafter
from ..errors import UsageError
from ..hf.body import body_of, layer_list
from ..hf.fit import fit
from ..hf.network import HFNetwork
from ..hf.trained import exits_of
from ..text.memories import Memories
from .call import Call, check
from .kept_back import kept_back
from .plain import decode_plainly, reason_for_plain
from .prompts import prompts_of
from .remembered import Remembered
from .result import result_of
from .texts import generate


class Decoder:
    """Decodes for transformers' ``generate``; remembers of a model how it is wired and what searches found out."""

    def __init__(self) -> None:
        self._remembered: WeakKeyDictionary[Any, Remembered] = WeakKeyDictionary()
        self._fitting = RLock()

    def __call__(
        self,
        model: Any,
        input_ids: Tensor,
        *,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        drafter: str | Drafter = "ngram",
        seed: int | None = None,
        streamer: Any = None,
        tokenizer: Any = None,
        stop_strings: str | Sequence[str] | None = None,
        **model_kwargs: Any,
    ) -> Any:
        """What ``generate`` returns, token for token what it would return without us; sampling has own random numbers.

        To be called by ``generate``, which passes on what it does not know: ``drafter`` is a name with options
        ("exit:layer=8") or a Drafter; ``seed`` of the samples is drawn from torch's generator where it is not given.
        Raises UsageError, with its name, for an argument that cannot be served.
        """
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise UsageError(f"seed={seed!r} is not a whole number")
        if not isinstance(drafter, str) and not callable(getattr(drafter, "propose", None)):
            raise UsageError(f'drafter={drafter!r} is neither a name like "ngram" nor a drafter')
        kept = kept_back()
        call = Call(
            model=model,
            input_ids=input_ids,
            processors=logits_processor,
            criteria=_with_strings(stopping_criteria, stop_strings, tokenizer or kept.get("tokenizer")),
            config=generation_config,
            streamer=streamer if streamer is not None else kept.get("streamer"),
            seed=seed,
            model_kwargs=model_kwargs,
        )
        with self._fitting:
            check(call, kept)
        if streamer is not None and "streamer" not in kept:
            streamer.put(input_ids.cpu())  # generate has not seen it, as in partial(skipstone.decode, streamer=…)
        return self._decode(call, drafter)

    def _decode(self, call: Call, drafter: str | Drafter) -> Any:
        given = call.model_kwargs
        prompts = prompts_of(call.input_ids, given.get("attention_mask"), given.get("position_ids"))
        if reason := reason_for_plain(call):
            return decode_plainly(call, reason)
        network = self._network(call.model)
        known = self._remembered[call.model]
        chosen = known.drafter(drafter, network) if isinstance(drafter, str) else drafter
        if call.seed is None and call.config.do_sample:
            call = replace(call, seed=int(torch.randint(2**62, ())))
        rows = generate(call, network, chosen, prompts, known.costs_for(chosen, network))
        if call.streamer is not None:
            call.streamer.end()
        return result_of(call, rows)

    def _network(self, model: Any) -> HFNetwork:
        """Checked against the model's own pass the first time; built anew each time, as modules come and go."""
        with self._fitting:  # a first look changes the model's settings for a moment
            known = self._remembered.get(model)
            if known is not None and len(known.windows) == len(layer_list(body_of(model)[0]) or ()):
                return HFNetwork(model, known.wiring, known.finish, known.windows)
            network, _ = fit(model)
            memories = Memories(exits=exits_of(Path(model.config.name_or_path), model.config.to_dict(), ()))
            finish = network.head.finish is not None
            self._remembered[model] = Remembered(network.wiring, finish, network.windows, memories)
            return network


def _with_strings(criteria: Any, strings: str | Sequence[str] | None, tokenizer: Any) -> Any:
    """``criteria`` and one more for stop strings, which ``generate`` cannot make itself as it loses the tokenizer."""
    if not strings:
        return criteria
    if tokenizer is None:
        raise UsageError("stop_strings need a tokenizer to be found: give tokenizer=… to generate")
    wanted = [strings] if isinstance(strings, str) else list(strings)
    return type(criteria)([*criteria, StopStringCriteria(tokenizer=tokenizer, stop_strings=wanted)])


decode = Decoder()
