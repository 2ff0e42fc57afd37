"""Single runs of a network on scratch memory, timed without the engine: what c and v are measured by."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...cost import Step
from ...network import Network
from ...plan import LayerPlan
from ...tree import Topology

_FILLING = 0.01  # zeros nobody wrote may share one page of memory, which is read far too fast
_ROOM = 64


class Runs:
    """Runs after ``context`` committed tokens, which are made up: what they are costs nothing."""

    def __init__(self, network: Network, context: int) -> None:
        self.network = network
        self.cache = network.new_cache(1, context + _ROOM)
        for buffer in (*self.cache.keys, *self.cache.values):
            buffer.fill_(_FILLING)
        self.cache.reset(0, context)
        self.cache.lengths[0] = context
        drawn = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(network.vocab_size, (1, _ROOM), generator=drawn).to(network.device)

    def step(self, step: Step) -> Callable[[], object]:
        """A run of ``step.nodes`` at once, with its head and the best token of each node."""
        chain = Topology.chain(step.nodes)
        x = self._entering(step)
        score = self._head(step.head)

        def run() -> object:
            hidden = self.network.run(x, self.cache.place(chain, [0]), self.cache, step.plan).hidden
            return hidden[0, 0, 0].item() if not step.head else self._pick(score(hidden))

        return run

    def chain(self, plan: LayerPlan, depth: int, head: bool | int = True) -> Callable[[], object]:
        """``depth`` draft steps of one node each, every one after those before it, with head and pick."""
        score = self._head(head)

        def run() -> None:
            for after in range(depth):
                placement = self.cache.place(Topology.chain(after + 1), [0], after=after)
                x = self.tokens[:, after : after + 1]
                self._pick(score(self.network.run(x, placement, self.cache, plan).hidden))

        return run

    def last(self, plan: LayerPlan, depth: int) -> Callable[[], object]:
        """The plan over the node behind ``depth`` others, without a head: what an exit draft still owes at its end."""

        def run() -> object:
            placement = self.cache.place(Topology.chain(depth + 1), [0], after=depth)
            x = self.tokens[:, depth : depth + 1]
            return self.network.run(x, placement, self.cache, plan).hidden[0, 0, 0].item()

        return run

    def _pick(self, logits: Tensor) -> object:
        return logits.argmax(-1).tolist()

    def _head(self, head: bool | int) -> Callable[[Tensor], Tensor]:
        """The whole head, or one for the first ``head`` tokens."""
        if head is True or not head:
            return self.network.logits
        return self.network.narrow_head(torch.arange(int(head), device=self.network.device))

    def _entering(self, step: Step) -> Tensor:
        """Tokens [1, N], or the hidden states that enter the plan's first layer."""
        tokens = self.tokens[:, : step.nodes]
        if step.plan.start == 0:
            return tokens
        placement = self.cache.place(Topology.chain(step.nodes), [0])
        return self.network.run(tokens, placement, self.cache, LayerPlan.until(step.plan.start)).hidden
