"""Average adapters of one lineage, factor by factor: what each part of the training found beside the others.

Usage: average.py OUTPUT ADAPTER=WEIGHT ADAPTER=WEIGHT ...

OUTPUT is a folder that gets the configuration of the first adapter.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("adapters", nargs="+", metavar="ADAPTER=WEIGHT")
    given = parser.parse_args()
    parts = {Path(name): float(weight) for name, _, weight in (each.rpartition("=") for each in given.adapters)}
    given.output.mkdir(parents=True)
    shutil.copy(next(iter(parts)) / CONFIG, given.output)
    save_file(averaged(parts), given.output / WEIGHTS, metadata={"format": "pt"})


def averaged(parts: dict[Path, float]) -> dict[str, torch.Tensor]:
    """In float16, as adapters are kept."""
    weights = {path: load_file(path / WEIGHTS) for path in parts}
    names = next(iter(weights.values()))
    return {name: sum(share * weights[path][name].float() for path, share in parts.items()).half() for name in names}


if __name__ == "__main__":
    main()
