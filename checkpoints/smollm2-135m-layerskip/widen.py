"""Grow the rank of an adapter behind its trained exits; the model with it stays the same until it is trained further.

Usage: widen.py ADAPTER OUTPUT RANK
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
Config = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    """Exits with an error of one line, before OUTPUT is made, where the adapter cannot be widened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("rank", type=int)
    given = parser.parse_args(argv)
    try:
        _widen(given.adapter, given.output, given.rank)
    except ValueError as error:
        parser.error(str(error))


def _widen(adapter: Path, output: Path, rank: int) -> None:
    if output.exists() or output.is_symlink():
        raise ValueError(f"{output} exists: choose another OUTPUT, or remove it")
    config = _config(adapter)
    _check(adapter, config, rank)
    alpha = _alpha(config["lora_alpha"], config["r"], rank)
    torch.manual_seed(0)
    weights = {name: _grown(name, each, config["r"], rank) for name, each in _weights(adapter).items()}
    _make(output)
    (output / CONFIG).write_text(json.dumps(config | {"r": rank, "lora_alpha": alpha}, indent=2))
    save_file(weights, output / WEIGHTS, metadata={"format": "pt"})
    shutil.copymode(output / CONFIG, output / WEIGHTS)  # save_file keeps all others from reading it


def _config(adapter: Path) -> Config:
    if missing := [name for name in (CONFIG, WEIGHTS) if not (adapter / name).is_file()]:
        raise ValueError(f"{adapter} has no {missing[0]}: give the folder of an adapter")
    try:
        config = json.loads((adapter / CONFIG).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{adapter / CONFIG} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{adapter / CONFIG} holds no object: give the folder of an adapter")
    for name, kinds in (("r", int), ("lora_alpha", (int, float))):
        if not isinstance(value := config.get(name), kinds) or not 0 < value < math.inf:
            raise ValueError(f"{adapter / CONFIG} has no {name} above 0: give the folder of an adapter")
    return config


def _check(adapter: Path, config: Config, rank: int) -> None:
    was, ranks, alphas = config["r"], config.get("rank_pattern") or {}, config.get("alpha_pattern") or {}
    if rank <= was:
        raise ValueError(f"rank {rank}: {adapter} has {was} already; give more")
    if config.get("use_rslora"):
        raise ValueError(f"{adapter} has use_rslora, whose scale goes by the root of the rank; widen one without")
    if not isinstance(ranks, dict) or not isinstance(alphas, dict) or ranks.keys() != alphas.keys():
        # one part of such a layer's scale would change without the other
        raise ValueError(f"{adapter} has layers in one of rank_pattern and alpha_pattern that are not in the other")
    if was in ranks.values():
        raise ValueError(f"{adapter} has rank {was} before its exits too, which is not told apart from that behind")


def _alpha(alpha: float, was: int, rank: int) -> int:
    """The one that keeps the scale alpha / rank; a whole number, as only that keeps it to the last bit."""
    found = Fraction(alpha) * rank / was
    if found.denominator != 1:
        raise ValueError(f"lora_alpha {alpha} at rank {was} would be {float(found):g} at rank {rank}: not whole")
    return int(found)


def _weights(adapter: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(adapter / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{adapter / WEIGHTS} cannot be read: {error}") from error


def _make(output: Path) -> None:
    try:
        output.mkdir(parents=True)
    except OSError as error:
        raise ValueError(f"{output} cannot be made: {error.strerror}") from error


def _grown(name: str, weight: torch.Tensor, was: int, rank: int) -> torch.Tensor:
    """``lora_A`` [rank, in] with rows as LoRA draws them, ``lora_B`` [out, rank] with zeros, which make them idle."""
    if "lora_A" in name and weight.shape[0] == was:
        bound = 1 / math.sqrt(weight.shape[1])
        new = torch.empty(rank - was, weight.shape[1]).uniform_(-bound, bound)
        return torch.cat([weight, new.to(weight.dtype)])
    if "lora_B" in name and weight.dim() == 2 and weight.shape[1] == was:
        return torch.cat([weight, weight.new_zeros(weight.shape[0], rank - was)], 1)
    return weight


if __name__ == "__main__":
    main()
