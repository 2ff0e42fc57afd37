"""A benchmark's laboratory with tiny models and a clock that only what is measured moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from costly import CostlyNetwork

from skipstone.bench.efficiency.lab import Effort, Lab
from skipstone.errors import ModelNotFound
from skipstone.hf.prepare import prepare
from skipstone.network import Network
from skipstone.testing.tiny import tiny_model

PROMPTS = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 1, 2]]


class TinyModels:
    """Implements ``Models`` with models of a few kilobytes."""

    name = "tiny"
    where: dict[str, Any] = {"model": "no such model", "cache": None, "offline": True}  # noqa: RUF012

    @cache  # noqa: B019, lives as long as a test
    def ours(self, weights: str) -> Network:
        return prepare(self.fresh(), weights).network

    @cache  # noqa: B019
    def theirs(self) -> Any:
        return self.fresh()

    def fresh(self) -> Any:
        return tiny_model("llama", layers=6, dtype=torch.float32, eos_token_id=5)

    def prompts(self) -> Sequence[Sequence[int]]:
        return PROMPTS

    def encode(self, text: str) -> list[int]:
        return [ord(letter) % 64 for letter in text[:8]]


class NoModels(TinyModels):
    """Nothing is installed."""

    def ours(self, weights: str) -> Network:
        raise ModelNotFound("no model here: pull one")

    theirs = fresh = prompts = lambda self: NoModels.ours(self, "")  # type: ignore[assignment]


class CostlyModels(TinyModels):
    """A network whose steps take a known time."""

    def __init__(self, network: CostlyNetwork) -> None:
        self.network = network

    def ours(self, weights: str) -> Network:
        return self.network


def tiny_lab(models: Any = None, tell: Callable[[str], None] = lambda line: None) -> Lab:
    return Lab(models or TinyModels(), Effort.quick(), tell)
