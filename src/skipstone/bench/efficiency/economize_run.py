"""``python -m skipstone.bench.efficiency.economize_run ORDER``: economize's early exit against plain decoding."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from skipstone.bench.efficiency.decoding import Job, theirs
from skipstone.bench.planted import Shape, exit_form
from skipstone.bench.timing import Rounds, interleaved, paired_ratio, seconds

_PROMPT = 48


def main(argv: list[str]) -> None:
    order: dict[str, Any] = json.loads(argv[0])
    model = exit_form(Shape(**order["shape"]), exit_layer=order["exit_layer"]).model
    drawn = random.Random(0)
    prompt = [drawn.randrange(model.config.vocab_size) for _ in range(_PROMPT)]
    job = Job(prompt, order["tokens"])
    arms: dict[str, Callable[[int], float]] = {
        "transformers": lambda number: theirs(model, job, perf_counter),
        **_economize(model, job, order),
    }
    for arm in arms.values():
        arm(0)
    taken = interleaved(arms, Rounds(order["rounds"], order["budget_s"]), perf_counter)
    found = {
        "speedup": paired_ratio(taken["transformers"], taken["drafted"]).value,
        "over_its_own_plain": paired_ratio(taken["plain"], taken["drafted"]).value,
    }
    print(json.dumps(found))


def _economize(model: Any, job: Job, order: dict[str, Any]) -> dict[str, Callable[[int], float]]:
    economize: Any = importlib.import_module("economize")
    early: Any = importlib.import_module("economize.techniques.early_exit")
    config = early.EarlyExitConfig(exit_layer=order["exit_layer"], head="shared", adaptation="frozen")
    efficient = economize.apply(model, config)
    prompt = torch.tensor(job.prompt)

    def arm(cycle_length: int) -> Callable[[int], float]:
        decoding = economize.DecodeConfig(cycle_length=cycle_length)
        return lambda number: seconds(lambda: efficient.decode(prompt, job.new_tokens, decoding=decoding), perf_counter)

    return {"plain": arm(1), "drafted": arm(order["depth"] + 1)}


if __name__ == "__main__":
    main(sys.argv[1:])
