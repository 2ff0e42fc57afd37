"""One call of ``generate`` as it reaches us, and what in it we refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import UsageError
from ..hf.body import body_of, check_supported, layer_list


@dataclass(frozen=True)
class Call:
    """Prepared by ``generate``: ``processors`` and ``criteria`` hold its own beside the caller's."""

    model: Any
    input_ids: Tensor  # [B, L]
    processors: Any
    criteria: Any
    config: Any
    streamer: Any
    seed: int | None
    model_kwargs: Mapping[str, Any]

    @property
    def rows(self) -> int:
        return self.input_ids.shape[0]

    @property
    def budget(self) -> int:
        """Tokens to generate at most. At least one, as the criteria are asked only after a token."""
        limit = self.criteria.max_length or self.config.max_length
        return max(int(limit) - self.input_ids.shape[1], 1)

    @property
    def keeps_scores(self) -> bool:
        return bool(self.config.return_dict_in_generate and self.config.output_scores)

    @property
    def keeps_logits(self) -> bool:
        return bool(self.config.return_dict_in_generate and self.config.output_logits)

    @property
    def pads(self) -> bool:
        """Whether a row that has ended is filled up while others go on (else it would say more)."""
        return any(hasattr(criterion, "eos_token_id") for criterion in self.criteria)

    @property
    def pad(self) -> int | None:
        token = self.config._pad_token_tensor
        return None if token is None else int(token)


def check(call: Call, kept: Mapping[str, Any]) -> None:
    """Raise UsageError, with its name, for any argument that would change nothing here though it should.

    Raises UnsupportedModel for a model that cannot be decoded with layer plans.
    """
    check_supported(call.model, call.model.config.get_text_config())
    _check_untouched(call.model)
    if call.model.training:
        raise UsageError("the model is in training mode, where dropout draws at random: call model.eval() first")
    if call.streamer is not None and call.rows > 1:
        raise UsageError(f"streamer shows one text, and there are {call.rows} rows: leave it out, or give one prompt")
    for name in ("assistant_model", "assistant_tokenizer", "synced_gpus"):
        if kept.get(name):
            raise UsageError(f"{name} has no use with skipstone.decode, which drafts by itself: leave it out")
    _check_mode(call.config)
    refused = [name for name in ("cache", "past_key_values") if name in kept]
    refused += [n for n, value in call.model_kwargs.items() if value is not None and not _FINE.get(n, _never)(value)]
    if refused:
        raise UsageError(f"{refused[0]} is not supported by skipstone.decode{_WHY.get(refused[0], ': leave it out')}")


def _check_untouched(model: Any) -> None:
    """Whatever others have put around the model's own passes has no part in running its layers' parts one by one."""
    prepare = vars(model).get("prepare_inputs_for_generation")
    if prepare is not None and getattr(prepare, "__func__", prepare) is not type(model).prepare_inputs_for_generation:
        raise UsageError(
            "the model's inputs are prepared by another library (as for prompt or prefix tuning), which "
            "skipstone.decode would leave out: generate without custom_generate"
        )
    body, _ = body_of(model)
    layers: Iterable[Any] = layer_list(body) or ()
    parts = {"the model": model, "its body": body, **{f"layer {number}": layer for number, layer in enumerate(layers)}}
    for name, part in parts.items():
        hooks = [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]
        if any(_foreign(hook) for hook in hooks) or ("forward" in vars(part) and not hasattr(part, "_hf_hook")):
            raise UsageError(
                f"{name} has a forward hook, or a forward of its own, which skipstone.decode would leave out as it "
                "runs the layers' parts: remove it, or generate without custom_generate"
            )


def _foreign(hook: Any) -> bool:
    """Libraries' own hooks only look, or move weights."""
    module = getattr(getattr(hook, "func", hook), "__module__", None) or ""
    return module.partition(".")[0] not in ("transformers", "accelerate", "peft", "torch")


def _check_mode(config: Any) -> None:
    for name, unset in _UNSUPPORTED.items():
        value = getattr(config, name, None)
        if value is not None and value not in unset:
            raise UsageError(f"{name}={value!r} is not supported by skipstone.decode: leave it out")
    mode = config.get_generation_mode()
    if mode not in ("greedy_search", "sample"):
        raise UsageError(f"skipstone.decode does greedy decoding and sampling: the arguments ask for {mode}")


# what each of them may be without asking for anything
_UNSUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "constraints": (),
    "force_words_ids": (),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "prompt_lookup_num_tokens": (),
    "assistant_early_exit": (),
    "use_mtp": (False,),
    "is_assistant": (False,),
    "output_attentions": (False,),
    "output_hidden_states": (False,),
    "use_cache": (True,),
    "cache_implementation": (),
    "cache_config": (),
    "compile_config": (),
    "low_memory": (False,),
}


def _never(value: Any) -> bool:
    return False


def _always(value: Any) -> bool:
    return True


def _untouched(cache: Any) -> bool:
    """Whether this may be the empty cache that ``generate`` makes for every call."""
    return not cache.get_seq_length()


def _nothing(value: Any) -> bool:
    return not torch.as_tensor(value).any()


# what transformers passes of its own accord; attention_mask and position_ids are checked with the prompts
_FINE = {
    "attention_mask": _always,
    "position_ids": _always,
    "logits_to_keep": _always,
    "use_cache": _always,
    "cache": _untouched,
    "past_key_values": _untouched,
    "token_type_ids": _nothing,
    "mm_token_type_ids": _nothing,  # of models that also see: 0 is text
}
_OWN_CACHE = ", which has a cache of its own: give the whole text as input_ids"
_WHY = {
    "cache": _OWN_CACHE,
    "past_key_values": _OWN_CACHE,
    "early_exit": ", whose texts are the whole model's: skipstone.load takes it, and labels what it gives as lossy",
    "inputs_embeds": ": give input_ids",
    "token_type_ids": " unless they are all 0: leave them out",
}
