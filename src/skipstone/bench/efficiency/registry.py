"""The parts there are, and choosing among them."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UsageError, did_you_mean
from . import assistant, cost_model, economize, memory, overhead, plain, planted_exit, planted_skip, sampling, verify
from .part import Part


def parts() -> list[Part]:
    """In the order in which they run."""
    makers = (
        plain.part,
        verify.part,
        planted_exit.part,
        planted_skip.part,
        assistant.part,
        economize.part,
        cost_model.part,
        sampling.part,
        overhead.part,
        overhead.part_1b,
        memory.part,
    )
    return [maker() for maker in makers]


def select(names: Sequence[str], known: Sequence[Part]) -> list[Part]:
    """The parts with these names or keys, all where none is given. Raises UsageError for a name that is neither."""
    every = sorted({name for part in known for name in (part.name, *part.keys)})
    for name in names:
        if name not in every:
            hint = did_you_mean(name, every)
            listed = "" if hint.startswith("known") else f" (known: {', '.join(every)})"
            raise UsageError(f'there is no part or figure "{name}": {hint}{listed}')
    return [part for part in known if not names or not {part.name, *part.keys}.isdisjoint(names)]
