"""transformers' own ``generate`` and ours on one model, and drafters that know what it will say."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from decoding import RandomDrafter
from tiny_folder import BOS, EOS, byte_level
from transformers import PreTrainedTokenizerFast

import skipstone
from skipstone.drafting import DraftState
from skipstone.hf.network import HFNetwork
from skipstone.request import Request
from skipstone.telemetry import StepRecord
from skipstone.testing import tiny_network
from skipstone.tree import Draft, Topology

FAMILIES = {
    "llama": {"agreeing": 0.85},
    "mistral": {"agreeing": 0.8, "sliding_window": 5},
    "qwen2": {"agreeing": 0.8},
    "qwen3": {"agreeing": 0.8},
}
DRAFTERS = [
    "none",
    "ngram:min=1",
    "skip:plan=uniform",
    "skip:plan=uniform,width=3",
    "exit:layer=2",
    "exit:layer=1,width=2",
]
ONE = {"input_ids": [[3, 9, 27, 3, 9]]}
PADDED = {
    "input_ids": [[0, 0, 0, 11, 7, 3], [5, 9, 5, 9, 5, 9], [0, 40, 41, 42, 40, 41]],
    "attention_mask": [[0, 0, 0, 1, 1, 1], [1] * 6, [0, 1, 1, 1, 1, 1]],
    "pad_token_id": 0,
}


@cache
def network(family: str = "llama") -> HFNetwork:
    """A small network of one of FAMILIES, built once."""
    return tiny_network(family, **FAMILIES[family])


@cache
def speaker() -> tuple[Any, PreTrainedTokenizerFast]:
    """A model that knows bytes, and its tokenizer."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level(), bos_token="<|begin|>", eos_token="<|end|>")
    vocab = len(tokenizer)
    return tiny_network(agreeing=0.9, vocab_size=vocab, bos_token_id=BOS, eos_token_id=EOS).model, tokenizer


def call(model: Any, settings: dict[str, Any], **more: Any) -> Any:
    """``generate`` with lists where it takes tensors."""
    tensors = {k: torch.tensor(v) for k, v in settings.items() if k in ("input_ids", "attention_mask")}
    return model.generate(**{**settings, **tensors, **more})


def ours(model: Any, settings: dict[str, Any], drafter: Any = "ngram", **more: Any) -> Any:
    return call(model, settings, custom_generate=skipstone.decode, drafter=drafter, **more)


class Knowing:
    """Drafts the next ``depth`` tokens of texts it was told (one a row, without padding), all of them right."""

    def __init__(self, texts: list[list[int]], depth: int = 6) -> None:
        self.texts, self.depth = texts, depth
        self.records: list[StepRecord] = []
        self.active: set[int] = set()

    def admit(self, row: int, request: Request) -> None:
        assert self.texts[row][: len(request.prompt)] == list(request.prompt)
        self.active.add(row)

    def release(self, row: int) -> None:
        self.active.remove(row)

    def observe(self, record: StepRecord) -> None:
        self.records.append(record)

    def propose(self, state: DraftState) -> Draft:
        room = min(self.depth, state.limits.nodes - 1)
        known = [
            self.texts[row][len(history) :][: max(min(room, depth), 0)]
            for row, history, depth in zip(state.rows, state.history, state.limits.depths, strict=True)
        ]
        longest = max(map(len, known))
        tokens = [[p, *k, *[p] * (longest - len(k))] for p, k in zip(state.pending, known, strict=True)]
        live = [[True] * (1 + len(k)) + [False] * (longest - len(k)) for k in known]
        return Draft(Topology.chain(1 + longest), torch.tensor(tokens), torch.tensor(live))


def knowing(plain: torch.Tensor, settings: dict[str, Any], depth: int = 6) -> Knowing:
    """A drafter that knows the sequences ``plain`` that generate gave for ``settings``."""
    masks = settings.get("attention_mask") or [[1] * len(ids) for ids in settings["input_ids"]]
    return Knowing([row[mask.count(0) :] for row, mask in zip(plain.tolist(), masks, strict=True)], depth)


def wild(plain: torch.Tensor, settings: dict[str, Any], seed: int = 0, family: str = "llama") -> RandomDrafter:
    """Random trees with the right tokens somewhere in them, spoilt scratch, fillers anywhere."""
    texts = knowing(plain, settings).texts

    def peek(request: Request) -> list[int]:
        size = len(request.prompt)
        return next(text[size:] for text in texts if text[:size] == list(request.prompt))

    return RandomDrafter(network(family), seed, peek)
