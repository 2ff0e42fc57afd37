"""Grow the rank of an adapter behind its trained exits; the model with it stays the same until it is trained further.

Usage: widen.py ADAPTER OUTPUT RANK
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("rank", type=int)
    given = parser.parse_args()
    if given.output.exists():
        parser.error(f"{given.output} exists: choose another OUTPUT, or remove it")
    if missing := [name for name in (CONFIG, WEIGHTS) if not (given.adapter / name).is_file()]:
        parser.error(f"{given.adapter} has no {missing[0]}: give the folder of an adapter")
    config = json.loads((given.adapter / CONFIG).read_text())
    was = config["r"]
    if given.rank <= was:
        parser.error(f"rank {given.rank}: {given.adapter} has {was} already; give more")
    if was in config["rank_pattern"].values():
        parser.error(f"{given.adapter} has rank {was} before its exits too, which is not told apart from that behind")
    config |= {"r": given.rank, "lora_alpha": config["lora_alpha"] * given.rank // was}  # the same scale as before
    torch.manual_seed(0)
    weights = {name: _grown(name, each, was, given.rank) for name, each in load_file(given.adapter / WEIGHTS).items()}
    given.output.mkdir(parents=True)
    (given.output / CONFIG).write_text(json.dumps(config, indent=2))
    save_file(weights, given.output / WEIGHTS, metadata={"format": "pt"})
    shutil.copymode(given.output / CONFIG, given.output / WEIGHTS)  # save_file keeps all others from reading it


def _grown(name: str, weight: torch.Tensor, was: int, rank: int) -> torch.Tensor:
    """``lora_A`` [rank, in] with rows as LoRA draws them, ``lora_B`` [out, rank] with zeros, which make them idle."""
    if "lora_A" in name and weight.shape[0] == was:
        bound = 1 / math.sqrt(weight.shape[1])
        new = torch.empty(rank - was, weight.shape[1]).uniform_(-bound, bound)
        return torch.cat([weight, new.to(weight.dtype)])
    if "lora_B" in name and weight.shape[1] == was:
        return torch.cat([weight, weight.new_zeros(weight.shape[0], rank - was)], 1)
    return weight


if __name__ == "__main__":
    main()
