"""What is minimised at each step: dropout, curriculum, exit weights and loss, put together for one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .batch import plain, run
from .curriculum import Curriculum
from .dropout import LayerDropout
from .early_exit_loss import EarlyExitLoss, ExitLosses
from .forward import exits
from .sharded import in_one_piece
from .targets import Teacher
from .teaching import Teaching
from .weights import ExitWeights


@dataclass(frozen=True)
class Place:
    """Which micro-batch this is: the draws of layer dropout depend on it, and on nothing that came before.

    ``of`` so many in this step; 0: as many as any rhythm divides. The last step of an epoch has fewer than others.
    """

    step: int
    micro_batch: int
    rank: int = 0
    of: int = 0


@dataclass(frozen=True)
class Rhythm:
    """How exits learn from the last layer of this very model, and how often it learns itself.

    ``agreement`` is the share of the exits' loss that is KL(last layer ‖ exit), the last layer being taken as it is;
    the rest is the labels' cross-entropy. 0: exits and last layer learn from the same targets. With ``last_every`` n
    the last layer has its loss in every n-th micro-batch, counted back from the last of the step, as many times as
    large as makes up for the others; in these the layers behind the last open exit run without gradients, which is
    most of the work of a deep model. Processes compare gradients in the last micro-batch of a step, and DDP must see
    then that they come from all layers.
    """

    agreement: float = 0.0
    last_every: int = 1

    def whole(self, place: Place) -> bool:
        return (place.of - 1 - place.micro_batch) % self.last_every == 0

    def times(self, place: Place) -> float:
        """What the last layer's loss counts, where it is on."""
        return place.of / -(-place.of // self.last_every) if place.of else self.last_every


@dataclass(frozen=True)
class Objective:
    curriculum: Curriculum
    dropout: LayerDropout
    weights: ExitWeights
    teaching: Teaching | None = None
    rhythm: Rhythm = field(default_factory=Rhythm)

    def __call__(
        self, model: Any, inner: Any, batch: Mapping[str, Tensor], place: Place, divisor: float | Tensor | None = None
    ) -> ExitLosses:
        """The losses of ``batch`` [B, N]; ``model`` is what to call, ``inner`` the same without wrappers.

        Raises TrainingError where a loss is not finite.
        """
        network, whole = plain(inner), self.rhythm.whole(place)
        on, last = self.curriculum.on(place.step), self.dropout.layers - 1
        keep = self.dropout.at(place.step, place.micro_batch, place.rank)
        resting = None if whole else max(on - {last}, default=-1) + 1
        with exits(network, on, keep, resting=resting) as hidden:
            run(model, network, batch)
        teacher = None if self.teaching is None or not whole else self.teaching(batch)
        loss = EarlyExitLoss.of(network)
        with in_one_piece(model, loss.head):
            times = self.rhythm.times(place) if whole else 0.0
            return self._losses(loss, hidden, batch["labels"], teacher, divisor, times)

    def _losses(
        self,
        loss: EarlyExitLoss,
        hidden: Mapping[int, Tensor],
        labels: Tensor,
        teacher: Teacher | None,
        divisor: float | Tensor | None,
        times: float,
    ) -> ExitLosses:
        """From ``hidden`` [B, N, H] by layer and ``labels`` [B, N]; the last layer's loss counts ``times`` as much."""
        weights, last = self.weights.normalised(hidden), self.dropout.layers - 1
        if not self.rhythm.agreement:
            return loss(hidden, labels, weights, teacher, divisor)
        ours = Teacher(hidden[last], loss.head, label_share=1 - self.rhythm.agreement)
        early = {layer: weight for layer, weight in weights.items() if layer != last and weight}
        late = {last: weights[last] * times} if times else {}
        parts = [loss(hidden, labels, part, by, divisor) for part, by in ((early, ours), (late, teacher)) if part]
        return joined(parts)


def joined(parts: Sequence[ExitLosses]) -> ExitLosses:
    """Losses of the same tokens at different exits, one part at least."""
    by_layer = {layer: loss for part in parts for layer, loss in part.by_layer.items()}
    total = torch.stack([part.total for part in parts]).sum()
    return ExitLosses(total, by_layer, parts[0].tokens, parts[0].empty_rows)


@dataclass
class Tally:
    """Means by exit over the tokens since they were last taken."""

    sums: dict[int, float] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    tokens: int = 0

    def add(self, losses: ExitLosses) -> None:
        self.tokens += losses.tokens
        for layer, loss in losses.by_layer.items():
            self.sums[layer] = self.sums.get(layer, 0.0) + loss * losses.tokens
            self.counts[layer] = self.counts.get(layer, 0) + losses.tokens

    def take(self) -> dict[str, float]:
        """By exit E (the output of layer E-1), as JSON has its keys; from here on it counts anew."""
        means = {str(layer + 1): self.sums[layer] / max(1, self.counts[layer]) for layer in sorted(self.sums)}
        self.sums.clear()
        self.counts.clear()
        self.tokens = 0
        return means
