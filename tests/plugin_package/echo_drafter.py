"""A drafter as a third party would ship it: it guesses that the last token comes again."""

from dataclasses import dataclass, field

import torch

from skipstone.tree import Draft, Topology


class EchoDrafter:
    """Repeats the last token; a sample plugin."""

    @dataclass(frozen=True)
    class Options:
        times: int = field(default=2, metadata={"help": "how often"})
        eager: bool = field(default=False, metadata={"help": "twice as often"})
        weight: float = field(default=0.5, metadata={"help": "of no use"})
        label: str = field(default="echo", metadata={"help": "of no use either"})

    def __init__(self, options, network):
        self.options = options

    def admit(self, row, request):
        pass

    def release(self, row):
        pass

    def observe(self, record):
        pass

    def propose(self, state):
        depth = max(min(self.options.times * (1 + self.options.eager), state.limits.depth), 0)
        topology = Topology.chain(1 + depth)
        tokens = torch.tensor([[token] * (1 + depth) for token in state.pending])
        live = topology.depths <= torch.tensor(state.limits.depths).clamp_min(0)[:, None]
        return Draft(topology, tokens, live)
