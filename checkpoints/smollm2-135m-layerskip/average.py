"""Average adapters of one lineage, factor by factor: what each part of the training found beside the others.

Usage: average.py OUTPUT ADAPTER=WEIGHT ADAPTER=WEIGHT ...

OUTPUT is a folder that gets the configuration of the first adapter. An adapter given twice has both weights together.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
SETTINGS = (  # by which the same factors mean the same
    "base_model_name_or_path",
    "r",
    "lora_alpha",
    "rank_pattern",
    "alpha_pattern",
    "use_rslora",
    "use_dora",
    "skipstone_exits",
)
Tensors = dict[str, torch.Tensor]
Config = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    """Exits with an error of one line, before OUTPUT is made, where the adapters cannot be averaged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("adapters", nargs="+", metavar="ADAPTER=WEIGHT")
    given = parser.parse_args(argv)
    try:
        if given.output.exists() or given.output.is_symlink():
            raise ValueError(f"{given.output} exists: choose another OUTPUT, or remove it")
        shares = added_up(given.adapters)
        check_set_alike({path: read_config(path) for path in shares})
        adapters = {path: read(path) for path in shares}
        check_alike(adapters)
        average = averaged(adapters, shares)
        make(given.output)
    except ValueError as error:
        parser.error(str(error))
    if not math.isclose(total := sum(shares.values()), 1, abs_tol=1e-6):
        print(f"the weights sum to {total:g}, not to 1", file=sys.stderr)
    shutil.copy(next(iter(shares)) / CONFIG, given.output)
    save_file(average, given.output / WEIGHTS, metadata={"format": "pt"})
    shutil.copymode(given.output / CONFIG, given.output / WEIGHTS)  # save_file keeps all others from reading it


def added_up(given: Sequence[str]) -> dict[Path, float]:
    """By adapter, in the order given."""
    shares: dict[Path, float] = {}
    for each in given:
        name, _, weight = each.rpartition("=")
        try:
            share = float(weight)
        except ValueError:
            share = math.nan
        if not name or not math.isfinite(share):
            raise ValueError(f"{each} is no ADAPTER=WEIGHT: write my-adapter=0.5")
        shares[Path(name)] = shares.get(Path(name), 0.0) + share
    return shares


def read_config(adapter: Path) -> Config:
    if missing := [name for name in (CONFIG, WEIGHTS) if not (adapter / name).is_file()]:
        raise ValueError(f"{adapter} has no {missing[0]}: give folders of adapters")
    try:
        config = json.loads((adapter / CONFIG).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{adapter / CONFIG} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{adapter / CONFIG} holds no object: give folders of adapters")
    return config


def check_set_alike(configs: dict[Path, Config]) -> None:
    (first, wanted), *others = configs.items()
    for path, config in others:
        for name in SETTINGS:
            ours, theirs = wanted.get(name, "absent"), config.get(name, "absent")
            if ours != theirs:
                raise ValueError(f"{name} is {theirs} in {path} and {ours} in {first}: give adapters of one lineage")


def read(adapter: Path) -> Tensors:
    try:
        weights = load_file(adapter / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{adapter / WEIGHTS} cannot be read: {error}") from error
    if spoilt := infinite(weights):
        raise ValueError(f"{spoilt[0]} is not finite in {adapter}: train that adapter anew")
    return weights


def infinite(weights: Tensors) -> list[str]:
    return [name for name, weight in weights.items() if not weight.float().isfinite().all()]


def check_alike(adapters: dict[Path, Tensors]) -> None:
    (first, wanted), *others = adapters.items()
    for path, weights in others:
        for name in sorted(wanted.keys() ^ weights.keys()):
            lacks, has = (path, first) if name in wanted else (first, path)
            raise ValueError(f"{lacks} has no {name}, which {has} has: give adapters of one lineage")
        for name, weight in weights.items():
            ours, theirs = list(wanted[name].shape), list(weight.shape)
            if ours != theirs:
                raise ValueError(f"{name} is {theirs} in {path} and {ours} in {first}: give adapters of the same ranks")


def averaged(adapters: dict[Path, Tensors], shares: dict[Path, float]) -> Tensors:
    """In float16, as adapters are kept."""
    names = next(iter(adapters.values()))
    found = {name: sum(share * adapters[path][name].float() for path, share in shares.items()).half() for name in names}
    if spoilt := infinite(found):
        raise ValueError(f"{spoilt[0]} grows beyond float16: give smaller weights")
    return found


def make(output: Path) -> None:
    try:
        output.mkdir(parents=True)
    except OSError as error:
        raise ValueError(f"{output} cannot be made: {error.strerror}") from error


if __name__ == "__main__":
    main()
