"""What property tests draw: sampling numbers, constraints, requests, drafters, and engines full of visits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from decoding import FUSED, NETWORKS, SLOTS, VOCAB, RandomDrafter, Visit, alone, network
from hypothesis import strategies as st

from skipstone.draft.exit import ExitDrafter
from skipstone.draft.ngram import NgramDrafter
from skipstone.draft.none import NoDrafter
from skipstone.draft.skip import SkipDrafter
from skipstone.drafting import Drafter
from skipstone.engine import Engine
from skipstone.hf.network import HFNetwork
from skipstone.request import Request
from skipstone.sampling import SamplingParams
from skipstone.stopping import StopTokens

tokens = st.integers(0, VOCAB - 1)


@dataclass
class NoneOfThree:
    """After token t, no token that makes their sum a multiple of three."""

    last: int = 0

    def mask(self, path: Sequence[int]) -> torch.Tensor:
        last = path[-1] if path else self.last
        return (torch.arange(VOCAB) + last) % 3 != 0

    def advance(self, tokens: Sequence[int]) -> None:
        self.last = tokens[-1] if tokens else self.last

    def fork(self) -> NoneOfThree:
        return replace(self)


samplings = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.0, 0.6, 1.0, 1.7]),
    top_k=st.sampled_from([0, 0, 1, 6, 40]),
    top_p=st.sampled_from([1.0, 1.0, 0.95, 0.6]),
    min_p=st.sampled_from([0.0, 0.0, 0.05, 0.4]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 0.8, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.0, 0.7, -0.4]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.5, -0.2]),
    logit_bias=st.dictionaries(tokens, st.sampled_from([-float("inf"), -2.0, 3.0]), max_size=3),
    seed=st.integers(0, 1000),
)
prompts = st.one_of(
    st.lists(tokens, min_size=1, max_size=14),
    st.lists(tokens, min_size=1, max_size=3).map(lambda part: (part * 5)[:14]),
)
requests = st.builds(
    Request,
    prompt=prompts,
    max_new_tokens=st.integers(1, 14),
    sampling=samplings,
    stops=st.one_of(st.just(()), st.frozensets(tokens, min_size=1, max_size=4).map(lambda t: (StopTokens(t),))),
    constraint=st.sampled_from([None, None, NoneOfThree()]),
)


@st.composite
def built_in(draw: st.DrawFn, net: HFNetwork) -> Drafter:
    """One of the drafters we ship, with drawn options."""
    L, depth, width = net.num_layers, draw(st.integers(1, 6)), draw(st.integers(1, 4))
    layers = st.sets(st.integers(0, L - 1), min_size=1).map(lambda s: "+".join(map(str, s)))
    low = draw(st.integers(1, 3))
    more = {"depth": depth, "width": width, "head": draw(st.sampled_from(["auto", "full", "3", "40"]))}
    return draw(
        st.sampled_from(
            [
                NoDrafter(NoDrafter.Options(), net),
                NgramDrafter(NgramDrafter.Options(max=low + depth, min=low, depth=depth), net),
                SkipDrafter(SkipDrafter.Options(plan="uniform", **more), net),
                SkipDrafter(SkipDrafter.Options(attn=draw(layers), mlp=draw(layers), **more), net),
                SkipDrafter(SkipDrafter.Options(window=4, budget=1.0, loan=10**6), net),
                ExitDrafter(ExitDrafter.Options(layer=draw(st.integers(1, L - 1)), **more), net),
                _dynamic(net, draw(st.sets(st.integers(1, L - 1))), more),
            ]
        )
    )


def _dynamic(net: HFNetwork, trained: set[int], more: dict[str, Any]) -> ExitDrafter:
    drafter = ExitDrafter(ExitDrafter.Options(window=4, budget=1.0, **more), net)
    drafter.trained_for(sorted(trained))
    return drafter


@dataclass(frozen=True)
class Scene:
    """An engine, the visits it will get, and what plain decoding says to each sample of each."""

    engine: Engine
    visits: list[Visit]
    plain: list[list[int]]


@st.composite
def scenes(draw: st.DrawFn, names: Sequence[str] = (*NETWORKS, *FUSED), request: st.SearchStrategy = requests) -> Scene:
    """Ragged texts over one to three rows, of which some leave early; drafters shared or of their own."""
    net = network(draw(st.sampled_from(names)))
    rows = draw(st.integers(1, 3))
    asked = draw(st.lists(request, min_size=1, max_size=4))
    visits = [
        Visit(
            r, samples=draw(st.integers(1, rows)), wait=draw(st.integers(0, 5)), leave_at=draw(st.sampled_from([2, 99]))
        )
        for r in asked
    ]
    known = [(r, alone(net, r).tokens) for visit in visits for r in visit.requests]
    peek: Callable[[Request], list[int]] = lambda request: next(text for r, text in known if r == request)  # noqa: E731
    wild = st.integers(0, 99).map(lambda seed: RandomDrafter(net, seed, peek))
    drafters = draw(st.lists(st.one_of(built_in(net), wild, wild), min_size=1, max_size=2))
    visits = [replace(visit, drafter=draw(st.sampled_from([None, *drafters]))) for visit in visits]
    engine = Engine(net, drafters[0], rows=rows, capacity=SLOTS, prefill_chunk=draw(st.integers(1, 20)))
    return Scene(engine, visits, [text for _, text in known])
