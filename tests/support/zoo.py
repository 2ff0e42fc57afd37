"""The zoo: a tiny network of every model type, by the names in ``ZOO``, but those the installed transformers lacks."""

from __future__ import annotations

from functools import cache

import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from versions import SINCE_5
from zoo_types import ALL

from skipstone.hf.network import HFNetwork
from skipstone.testing import tiny_network

VOCAB = 64
# what transformers 4 cannot build or compute in float64, or masks in a way that cannot be observed
_SINCE_5 = {
    *("stablelm, parallel", "phi3, longrope", "qwen2_moe", "phimoe", "granitemoehybrid", "jetmoe"),
    *("glm4_moe", "dots1", "deepseek_v2", "deepseek_v3", "ernie4_5_moe", "gptj", "codegen"),
}
ZOO = {
    name: sample
    for name, sample in ALL.items()
    if sample.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and (SINCE_5 or name not in _SINCE_5)
}
FIRST = list({sample.model_type: name for name, sample in reversed(ZOO.items())}.values())[::-1]  # of every type


@cache
def network(name: str) -> HFNetwork:
    """The network of a sample, built once."""
    return built(name)


def built(name: str, dtype: torch.dtype = torch.float64) -> HFNetwork:
    sample = ZOO[name]
    return tiny_network(sample.model_type, layers=3, agreeing=0.5, dtype=dtype, **sample.config)


def prompt(length: int) -> list[int]:
    return [(7 + 31 * n) % VOCAB for n in range(length)]
