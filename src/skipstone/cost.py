"""What a step costs: milliseconds of any layer plan over any number of nodes, rows and tokens of context.

Numbers in, numbers out: measured sublayers (``CostTable``) add up to steps, and observed steps correct the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from .correction import Correction
from .curve import Curve, Surface
from .errors import PlanError, UsageError
from .plan import LayerPlan

FORMAT = 1
TYPICAL_CONTEXT = 256  # tokens, where nobody says how many
_CALM = 1.25  # spread of times up to which nothing else ran
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """One run of the network.

    ``nodes`` of each of ``rows`` rows, after ``context`` committed tokens. ``head``: True for logits of the whole
    vocabulary, False for none, a number for a head restricted to that many tokens.
    """

    plan: LayerPlan
    nodes: int
    rows: int = 1
    context: int = TYPICAL_CONTEXT
    head: bool | int = True

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.rows < 1 or self.context < 0 or self.head < 0:
            raise UsageError(
                f"a step of {self.nodes} nodes, {self.rows} rows, {self.context} tokens of context and head {self.head}"
                " costs nothing known: use 1 or more nodes and rows, and nothing below 0"
            )

    @property
    def tokens(self) -> int:
        """Nodes of all rows together."""
        return self.nodes * self.rows


@dataclass(frozen=True, slots=True)
class CostTable:
    """Measured milliseconds. *Tokens* are the nodes of all rows together."""

    layers: int
    vocab_size: int
    overhead: Surface  # over nodes, context: embedding, placement and mask of a step, whatever its plan
    attention: Curve  # over tokens: one attention sublayer over a short context
    read: Surface  # over nodes, context: what a longer context adds to it, each row
    row: float  # what a row beyond the first adds to an attention sublayer
    mlp: Curve  # over tokens: one MLP sublayer
    head: Surface  # over vocabulary entries, tokens: final norm and LM head
    spread: float = 1.0  # times its shortest that a measurement took, typically: what else the machine was doing

    def __post_init__(self) -> None:
        if self.layers < 1 or self.vocab_size < 1 or not (math.isfinite(self.row) and self.row >= 0):
            raise UsageError(
                f"a cost table of {self.layers} layers, {self.vocab_size} words and {self.row} ms a row was given: "
                "use 1 or more layers and words, and a finite time of 0 or more"
            )
        if not (math.isfinite(self.spread) and self.spread >= 1):
            raise UsageError(f"a cost table has spread {self.spread}: times are 1 or more times their shortest")

    def ms(self, step: Step) -> float:
        """Milliseconds of a step; the sum of its parts."""
        plan, tokens = step.plan, step.tokens
        ran = plan.stop - plan.start
        attention = (
            self.attention(tokens) + step.rows * self.read(step.nodes, step.context) + (step.rows - 1) * self.row
        )
        return (
            self.overhead(step.nodes, step.context)
            + (ran - len(plan.skip_attn)) * attention
            + (ran - len(plan.skip_mlp)) * self.mlp(tokens)
            + self._head(step)
        )

    @property
    def plain_ms(self) -> float:
        """Milliseconds of a plain step."""
        return self.ms(Step(LayerPlan.full(self.layers), 1))

    @property
    def calm(self) -> bool:
        """Whether nothing else ran meanwhile, as far as the times tell."""
        return self.spread <= _CALM

    def _head(self, step: Step) -> float:
        if step.head is False or step.head == 0:
            return 0.0
        entries = self.vocab_size if step.head is True else min(step.head, self.vocab_size)
        return self.head(entries, step.tokens)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, value: Any) -> CostTable:
        """Raises UsageError for anything but what ``to_json`` of this version gave."""
        return _read("cost table", value, cls._from_json)

    @classmethod
    def _from_json(cls, value: Any) -> CostTable:
        return cls(
            layers=int(value["layers"]),
            vocab_size=int(value["vocab_size"]),
            overhead=_surface(value["overhead"]),
            attention=_curve(value["attention"]),
            read=_surface(value["read"]),
            row=float(value["row"]),
            mlp=_curve(value["mlp"]),
            head=_surface(value["head"]),
            spread=float(value.get("spread", 1.0)),
        )


class CostModel:
    """Predicts from a table and corrects itself from real steps: the machine is never as it was when measured."""

    def __init__(self, table: CostTable, correction: Correction | None = None) -> None:
        self.table = table
        self.correction = correction if correction is not None else Correction()

    def step_ms(
        self,
        plan: LayerPlan,
        nodes: int,
        rows: int = 1,
        context: int = TYPICAL_CONTEXT,
        head: bool | int = True,
    ) -> float:
        """Milliseconds of the step with these fields.

        Raises PlanError for a plan beyond the measured model's layers.
        """
        if plan.stop > self.table.layers:
            raise PlanError(
                f"the plan has {plan.stop} layers and these are the costs of {self.table.layers}: "
                "give a plan of that model"
            )
        return self.ms(Step(plan, nodes, rows, context, head))

    def ms(self, step: Step) -> float:
        return self.table.ms(step) * self.correction.factor(_bucket(step))

    def observe(self, step: Step, ms: float) -> None:
        """Learn that a step took ``ms``. What no clock can have shown (0, not finite) is left out."""
        predicted = self.table.ms(step)
        ratio = ms / predicted if predicted > 0 else 0.0
        if ratio > 0 and math.isfinite(ratio):
            self.correction.add(_bucket(step), ratio)

    def draft_ratio(
        self, draft: LayerPlan, rows: int = 1, context: int = TYPICAL_CONTEXT, head: bool | int = True
    ) -> float:
        """c = milliseconds of a draft step of one node / of a plain step."""
        return self._over_plain(Step(draft, 1, rows, context, head))

    def verify_ratio(self, depth: int, rows: int = 1, context: int = TYPICAL_CONTEXT) -> float:
        """v(K) = milliseconds of verifying K + 1 nodes / of a plain step."""
        return self._over_plain(Step(LayerPlan.full(self.table.layers), depth + 1, rows, context))

    def _over_plain(self, step: Step) -> float:
        plain = self.ms(Step(LayerPlan.full(self.table.layers), 1, step.rows, step.context))
        return self.ms(step) / plain if plain > 0 else 1.0

    def to_json(self) -> dict[str, Any]:
        """The table with what was learnt since."""
        return {"format": FORMAT, "table": self.table.to_json(), "recent": [list(r) for r in self.correction.recent]}

    @classmethod
    def from_json(cls, value: Any) -> CostModel:
        """Raises UsageError for anything but what ``to_json`` of this version gave."""
        return _read("cost model", value, cls._from_json)

    @classmethod
    def _from_json(cls, value: Any) -> CostModel:
        recent = [(int(bucket), float(ratio)) for bucket, ratio in value["recent"]]
        return cls(CostTable.from_json(value["table"]), Correction(recent))


def expected_tokens(acceptance: float, depth: int) -> float:
    """M = (1 - a^(K+1)) / (1 - a), the bonus included: tokens of a cycle that drafts K, accepted with chance a each."""
    return sum(acceptance**accepted for accepted in range(depth + 1))


def speedup(acceptance: float, depth: int, c: float, v: float) -> float:
    """M / (K·c + v) over plain decoding, c and v in plain steps."""
    return expected_tokens(acceptance, depth) / (depth * c + v)


def _bucket(step: Step) -> int:
    """1, 2-3, 4-7, 8-15 … tokens err alike."""
    return step.tokens.bit_length()


def _curve(value: Any) -> Curve:
    return Curve(tuple(float(x) for x in value["at"]), tuple(float(y) for y in value["values"]))


def _surface(value: Any) -> Surface:
    return Surface(tuple(float(x) for x in value["at"]), tuple(_curve(curve) for curve in value["curves"]))


def _read(what: str, value: Any, parse: Callable[[Any], T]) -> T:
    found = value.get("format") if isinstance(value, dict) else None
    if found != FORMAT:
        raise UsageError(f"a {what} of format {found} was given, this version reads {FORMAT}: measure again")
    try:
        return parse(value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"a {what} is damaged ({type(error).__name__}: {error}): measure again") from error
