"""The planted skip model: a real one grown with idle layers, so that the text is real and the best plan is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import SkipstoneError, UsageError
from ...hf.prepare import prepare
from ...network import Network
from ..planted import PlantedModel, grown_model, skip_form
from .lab import Lab
from .part import Absent, Figure, Findings, Part, why
from .planted_arms import Draft, Outcome, bound, compare
from .planted_exit import KINDS, prompts_for
from .traffic import traffic_of
from .weights import as_asked, or_absent

_SEED = 0
_HALF = ("planted_skip_speedup_float16", "planted_skip_model_share_float16")
_HEADS = ("planted_skip_head_speedup", "planted_skip_head_model_share")


def part() -> Part:
    figures = (
        Figure("planted_skip_speedup", "drafted / plain on a real model grown with idle layers"),
        Figure("planted_skip_model_share", "of M / (K·c + v), all measured in the run", "≥ 0.95"),
        Figure(_HEADS[0], "the same, drafting with frequent tokens only"),
        Figure(_HEADS[1], "of M / (K·c + v) with that head", "≥ 0.95"),
    )
    return Part("planted_skip", figures, run)


def run(lab: Lab) -> Findings:
    """Both kinds of weights; the figures are those of float32, which the rivals have too."""
    found, half = _measured(KINDS[0], lab), or_absent(lambda: _measured(KINDS[1], lab))
    full, few = found["full"], found["head"]
    heads = [few, few] if isinstance(few, Absent) else [few.speedup, few.share]
    halves: list[Any] = [half, half] if isinstance(half, Absent) else [half["full"].speedup, half["full"].share]
    return {
        "planted_skip_speedup": full.speedup,
        "planted_skip_model_share": full.share,
        **dict(zip(_HEADS, heads, strict=True)),
        **dict(zip(_HALF, halves, strict=True)),
        "planted_skip_bound": found["bound"],
        "planted_skip_head_bound": found["head_bound"],
        "planted_skip_weights": KINDS[0],
        "planted_skip_model": found["name"],
        "planted_skip": {
            KINDS[0]: _details(found),
            KINDS[1]: {"absent": half.reason} if isinstance(half, Absent) else _details(half),
        },
    }


def grown(lab: Lab, leak: float = 0.0) -> tuple[PlantedModel, str, Sequence[Sequence[int]]]:
    """The model, what it is, and prompts; random numbers where no real model is. Idle layers do ``leak`` of it."""
    try:
        fresh, prompts = lab.models.fresh(), lab.models.prompts()
    except SkipstoneError as error:
        lab.tell(f"  no real model ({why(error)}): a random one instead")
        shape = lab.effort.skip_shape
        model = skip_form(shape, attn=shape.layers // 2, seed=_SEED, leak=leak)
        return model, f"random, {shape.layers} layers", prompts_for(lab, shape.vocab_size)
    model = grown_model(fresh, lab.effort.added, seed=_SEED, leak=leak)
    return model, f"{lab.models.name} grown to {model.num_layers} layers", prompts


def _measured(kind: str, lab: Lab) -> dict[str, Any]:
    model, name, prompts = grown(lab)
    lab = lab.share(2 * len(KINDS) + 2)  # models are built besides
    network = as_asked(prepare(model.model, kind).network, kind)
    depth, entries = lab.effort.depth, lab.effort.head
    full = Draft(model.spec(depth), model.best, depth)
    few = Draft(model.spec(depth, str(entries)), model.best, depth, entries)
    traffic = traffic_of(network)
    outcome = compare(network, full, prompts, lab)
    lab.tell(f"  {kind}: {outcome.speedup.value:.2f} times plain decoding, M {outcome.mean_accepted:.2f}")
    return {
        "name": name,
        "full": outcome,
        "bound": bound(traffic, full),
        "head": _restricted(network, few, prompts, lab),
        "head_bound": bound(traffic, few),
    }


def _restricted(network: Network, draft: Draft, prompts: Sequence[Sequence[int]], lab: Lab) -> Outcome | Absent:
    try:
        return compare(network, draft, prompts, lab)
    except UsageError as error:
        return Absent(why(error))


def _details(found: dict[str, Any]) -> dict[str, Any]:
    few = found["head"]
    restricted = {"absent": few.reason} if isinstance(few, Absent) else {**few.to_json(), "bound": found["head_bound"]}
    return {"full": {**found["full"].to_json(), "bound": found["bound"]}, "head": restricted}
