"""Token-by-token drafting with some of the network's own layers, shared by the drafters that do so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..accept import Pick
from ..drafting import DraftState
from ..plan import LayerPlan
from ..tree import Draft, Resume, Topology
from .bands import Bands
from .head import DraftHead

Enough = Callable[[list[list[Pick]]], bool]  # picks by depth and row -> whether drafting should stop here


@dataclass
class Backbone:
    """A drafted backbone: its picks by depth and row, and the hidden states [B, 1, H] of the nodes already run.

    ``depth`` tokens, or fewer where ``enough`` says so; the token it was asked about is drafted all the same.
    ``width`` choices at each depth, or as many as ``bands`` says of each token, where there is room. ``tapped[l]`` are
    the streams [B, n, H] that entered layer l, for the layers of ``taps``, run by run.
    """

    state: DraftState
    plan: LayerPlan
    depth: int
    head: DraftHead
    width: int = 1
    enough: Enough | None = None
    bands: Bands | None = None
    picks: list[list[Pick]] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)
    taps: tuple[int, ...] = ()
    tapped: dict[int, list[Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.head.look(self.state, self.plan, self.depth)
        while len(self.picks) < self.depth:
            self._extend()
            if self.enough is not None and self.enough(self.picks):
                break

    @property
    def chosen(self) -> list[list[int]]:
        """[B] backbone tokens drafted so far."""
        return [[picks[b].tokens[0] for picks in self.picks] for b in range(len(self.state.rows))]

    def _extend(self) -> None:
        """Run the newest backbone node through the plan and pick what follows it."""
        state = self.state
        paths = self.chosen
        newest = [path[-1] if path else pending for path, pending in zip(paths, state.pending, strict=True)]
        self.hidden.append(self.run(torch.tensor(newest)[:, None], Topology.chain(len(self.hidden) + 1)))
        logits = self.head(state, self.hidden[-1])
        self.picks.append(state.pick(logits, paths, self.width if self.bands is None else self.bands.widest))

    def run(self, tokens: Tensor, topology: Topology) -> Tensor:
        """Run the last nodes of ``topology``, tokens [B, n], after those already run; hidden states [B, n, H]."""
        state = self.state
        placement = state.cache.place(topology, state.rows, after=len(self.hidden))
        x = tokens.to(state.network.device)
        run = state.network.run(x, placement, state.cache, self.plan, self.taps)
        for layer, tap in run.taps.items():
            self.tapped.setdefault(layer, []).append(tap)
        return run.hidden

    def streams(self, place: int, nodes: Sequence[int]) -> dict[int, Tensor]:
        """By tapped layer: [n, H] that entered it at ``nodes`` of row number ``place``."""
        return {layer: torch.cat(parts, dim=1)[place, nodes] for layer, parts in self.tapped.items()}

    def draft(self, widths: tuple[int, ...] | None = None, ends: Mapping[int, int] | None = None) -> Draft:
        """The comb of backbone and siblings; what a row's limits leave no use for is not live.

        ``widths`` are how many of the choices to keep at each depth, and how many depths: all but the last have run.
        ``ends``: by row the depth that its draft ends at, where others go on.
        """
        state = self.state
        self.picks = self.picks if widths is None else self.picks[: len(widths)]  # the list itself is another's too
        wanted = self._wanted(ends or {})
        widths = self._shared(wanted) if widths is None else widths
        topology = Topology.comb(widths)
        siblings = [
            [t for picks, w in zip(self.picks, widths, strict=True) for t in picks[b].tokens[1:w]]
            for b in range(len(state.rows))
        ]
        rows = [[p, *c, *s] for p, c, s in zip(state.pending, self.chosen, siblings, strict=True)]
        deepest = [min(depth, (ends or {}).get(b, depth)) for b, depth in enumerate(state.limits.depths)]
        usable = torch.tensor(deepest).clamp_min(0)[:, None]
        live = topology.depths <= usable
        if self.bands is not None:
            live = live & _kept(wanted, widths)
        device = state.network.device
        return Draft(topology, torch.tensor(rows, device=device), live.to(device), probs=self._probs())

    def _wanted(self, ends: Mapping[int, int]) -> list[list[int]]:
        """Choices by depth and row; one, the backbone's, behind the end of a row's draft."""
        if self.bands is None:
            return [[len(pick.tokens) for pick in picks] for picks in self.picks]
        return [
            [min(self.bands(p), len(p.tokens)) if depth <= ends.get(b, depth) else 1 for b, p in enumerate(picks)]
            for depth, picks in enumerate(self.picks, 1)
        ]

    def _shared(self, wanted: list[list[int]]) -> tuple[int, ...]:
        """Choices by depth that all rows have nodes for; the shallow depths come first where room is short."""
        if self.bands is None:
            return tuple(map(min, wanted))
        spare = self.state.limits.nodes - 1 - len(wanted)
        widths: list[int] = []
        for by_row in wanted:
            widths.append(1 + min(max(by_row) - 1, spare))
            spare -= widths[-1] - 1
        return tuple(widths)

    def resumed(self, draft: Draft) -> Draft:
        """``draft`` with the hidden states of all its nodes: those not yet run share one pass of the plan."""
        late = draft.tokens[:, len(self.hidden) :]
        parts = [*self.hidden, self.run(late, draft.topology)] if late.shape[1] else self.hidden
        resume = Resume(torch.cat(parts, dim=1), self.plan.stop)
        return replace(draft, resume=resume)

    def _probs(self) -> Tensor | None:
        """[B, depth, V] where the acceptance rule asked for them."""
        by_row = [
            [p.probs for picks in self.picks if (p := picks[b]).probs is not None] for b in range(len(self.state.rows))
        ]
        return torch.stack([torch.stack(row) for row in by_row]) if by_row and by_row[0] else None


def _kept(wanted: list[list[int]], widths: tuple[int, ...]) -> Tensor:
    """[B, N] bool: the nodes of the comb that each row wants; the backbone it always does."""
    rows = []
    for row in zip(*wanted, strict=True):
        siblings = [n < want for want, width in zip(row, widths, strict=True) for n in range(1, width)]
        rows.append([True] * (1 + len(widths)) + siblings)
    return torch.tensor(rows)


def room_for_depth(state: DraftState, depth: int, width: int) -> int:
    """The deepest comb of this width, at most ``depth``, that the limits leave room and use for."""
    return max(min(depth, state.limits.depth, (state.limits.nodes - 1) // width), 0)
