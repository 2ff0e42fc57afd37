"""When a text ends. Rules look at a step's new tokens before they are committed, so an end inside a draft is an end.

A rule is a pure function of the output so far and the new tokens: nothing to roll back, and rows can share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

StopReason = Literal["eos", "stop_token", "stop_string", "length", "context"]


@dataclass(frozen=True, slots=True)
class Stop:
    """Keep the first ``count`` of the new tokens (the stopping one included), then end."""

    count: int
    reason: StopReason


class StopRule(Protocol):
    def clip(self, output: Sequence[int], new: Sequence[int]) -> Stop | None:
        """Whether the text ends within ``new``, given ``output`` [generated so far, without ``new``]."""
        ...


@dataclass(frozen=True)
class StopTokens:
    """Ends at any of some token ids."""

    tokens: frozenset[int]
    reason: StopReason = "eos"

    def clip(self, output: Sequence[int], new: Sequence[int]) -> Stop | None:
        return next((Stop(i + 1, self.reason) for i, token in enumerate(new) if token in self.tokens), None)


@dataclass(frozen=True)
class Length:
    """Ends when the output has ``limit`` tokens."""

    limit: int
    reason: StopReason = "length"

    def clip(self, output: Sequence[int], new: Sequence[int]) -> Stop | None:
        left = self.limit - len(output)
        return Stop(left, self.reason) if left <= len(new) else None


def first_stop(rules: Iterable[StopRule], output: Sequence[int], new: Sequence[int]) -> Stop | None:
    """The earliest end that any rule finds; of several at one token, the first rule's."""
    stops = [stop for rule in rules if (stop := rule.clip(output, new)) is not None]
    return min(stops, key=lambda stop: stop.count, default=None)
