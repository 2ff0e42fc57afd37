"""The planted exit model: LayerSkip's draft, always right, against the bound of its layers."""

from __future__ import annotations

import random
from typing import Any

from ...hf.prepare import prepare
from ..planted import PlantedModel, exit_form
from .lab import Lab
from .part import Absent, Figure, Findings, Part
from .planted_arms import Draft, Outcome, bound, compare
from .traffic import Traffic, traffic_of
from .weights import as_asked, or_absent

KINDS = ("float32", "float16")
_PROMPT = 48
_HALF = ("planted_exit_speedup_float16", "planted_exit_model_share_float16")


def part() -> Part:
    figures = (
        Figure("planted_exit_speedup", "drafted / plain on a model whose exit drafts are always right", "≥ 2.1"),
        Figure("planted_exit_speedup_whole", "the same of whole texts with their prompts, as rivals are timed"),
        Figure(_HALF[0], "drafted / plain there with float16 weights"),
        Figure("planted_exit_model_share", "of M / (K·c + late + v), all measured in the run", "≥ 0.95"),
    )
    return Part("planted_exit", figures, run)


def run(lab: Lab) -> Findings:
    """Both kinds of weights; the figures are those of float32, which the rivals have too."""
    best, bounds = _measured(KINDS[0], lab)
    half = or_absent(lambda: _measured(KINDS[1], lab))
    figures: list[Any] = [half, half] if isinstance(half, Absent) else [half[0].speedup, half[0].share]
    return {
        "planted_exit_speedup": best.speedup,
        "planted_exit_speedup_whole": best.whole,
        "planted_exit_model_share": best.share,
        **dict(zip(_HALF, figures, strict=True)),
        "planted_exit_bound": bounds["bound"],
        "planted_exit_weights": KINDS[0],
        "planted_exit": {KINDS[0]: {**best.to_json(), **bounds}, KINDS[1]: _details(half)},
    }


def _details(half: tuple[Outcome, dict[str, Any]] | Absent) -> dict[str, Any]:
    return {"absent": half.reason} if isinstance(half, Absent) else {**half[0].to_json(), **half[1]}


def planted(lab: Lab) -> PlantedModel:
    return exit_form(lab.effort.shape, exit_layer=lab.effort.exit_layer)


def prompts_for(lab: Lab, vocab_size: int, count: int = 3) -> list[list[int]]:
    """Token ids that mean nothing, as the model's own text."""
    drawn = random.Random(0)
    length = min(_PROMPT, lab.effort.shape.context // 4)
    return [[drawn.randrange(vocab_size) for _ in range(length)] for _ in range(count)]


def _measured(kind: str, lab: Lab) -> tuple[Outcome, dict[str, Any]]:
    model = planted(lab)
    network = as_asked(prepare(model.model, kind).network, kind)
    draft = Draft(model.spec(lab.effort.depth), model.best, lab.effort.depth)
    outcome = compare(network, draft, prompts_for(lab, network.vocab_size), lab.share(len(KINDS)))
    lab.tell(f"  {kind}: {outcome.speedup.value:.2f} times plain decoding, M {outcome.mean_accepted:.2f}")
    traffic = traffic_of(network)
    return outcome, {"bound": bound(traffic, draft), "bound_of_layers": bound(_headless(traffic), draft)}


def _headless(traffic: Traffic) -> Traffic:
    """Without the head: d·L / (d·E + L - E) for d early passes that give d tokens."""
    return Traffic(traffic.attn, traffic.mlp, 0, 0)
