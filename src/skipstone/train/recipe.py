"""All settings of a training run: checked, read from a file, written down with the result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import PlanError, UsageError, did_you_mean
from .curriculum import Curriculum, Fixed, Gradual, Rotational
from .dropout import LayerDropout
from .weights import ExitWeights


@dataclass(frozen=True)
class Recipe:
    """One run. Exit E is the output of layer E-1, so that decoding with it runs the first E layers.

    ``exits`` trains these few at every step; without them ``curriculum`` says which of all have their turn, rotational
    with ``period`` R (0: 8, or the number of layers where that is less). ``p_max`` is the layer dropout of the last
    layer, ``e_scale`` how much early exits count. ``distil`` is the share of the loss that compares with the starting
    model instead of the labels. ``exit_share`` is the share of the loss that the exits have together (0: the paper's),
    ``agreement`` that of their loss which compares with this model's own last layer. With ``last_every`` n, n-1 of n
    micro-batches train exits only. ``lora_early_rank`` is the rank in the layers before the last trained exit;
    ``adapter`` is one of these ranks to go on with. With ``frozen_layers`` n the first n layers stay as they are, and
    what goes into them too: where that is all before the exits, only what comes behind them learns.
    ``stored`` is the number type that the trained weights are written in.
    ``fsdp`` spreads weights, gradients and optimizer over the processes.
    """

    model: str
    data: tuple[str, ...]
    output: str
    eval_data: tuple[str, ...] = ()
    exits: tuple[int, ...] = ()
    curriculum: str = "rotational"
    period: int = 0
    p_max: float = 0.1
    e_scale: float = 0.2
    distil: float = 0.0
    exit_share: float = 0.0
    agreement: float = 0.0
    last_every: int = 1
    scratch: bool = False
    lora_rank: int = 0
    lora_early_rank: int = 0
    adapter: str = ""
    frozen_layers: int = 0
    seed: int = 0
    steps: int = 1000
    batch: int = 1
    accumulation: int = 8
    length: int = 1024
    learning_rate: float = 3e-5
    warmup: int = 0
    weight_decay: float = 0.0
    checkpointing: bool = False
    fsdp: bool = False
    precision: str = "auto"
    stored: str = "float32"
    device: str = "auto"
    save_every: int = 100
    log_every: int = 10
    eval_rows: int = 32

    def __post_init__(self) -> None:
        """Raises UsageError for what no model could be trained with."""
        _check_least(self)
        _check_shares(self)
        _check_choice("curriculum", self.curriculum, ("rotational", "gradual"))
        _check_choice("precision", self.precision, ("auto", "float32", "bfloat16"))
        _check_choice("stored", self.stored, ("float32", "float16", "bfloat16"))
        _check_together(self)
        if not self.data:
            raise UsageError("no training data: give files with data")
        if self.scratch and (self.distil or self.lora_rank):
            raise UsageError(
                "training from scratch has no starting model: leave out distil and lora_rank, or leave out scratch"
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Recipe:
        """From the names and values of a file or command line. Raises UsageError for unknown names and wrong kinds."""
        known = {each.name: each for each in fields(cls)}
        for name in given:
            if name not in known:
                raise UsageError(f'a training recipe has no "{name}": {did_you_mean(name, known)}')
        for name in ("model", "data", "output"):
            if name not in given:
                raise UsageError(f"the training recipe lacks {name}: give it in the file or as a flag")
        return cls(**{name: _as(str(known[name].type), name, value) for name, value in given.items()})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def plan(self, layers: int) -> Plan:
        """For a model of ``layers``. Raises PlanError or UsageError where the recipe does not fit it."""
        for exit_layer in self.exits:
            if not 2 <= exit_layer < layers:
                known = f"give exits from 2 to {layers - 1}" if layers > 2 else "there is none before the last layer"
                raise PlanError(f"exit {exit_layer} cannot be trained in a model of {layers} layers: {known}")
        if self.frozen_layers >= layers:
            raise PlanError(
                f"frozen_layers {self.frozen_layers} of a model of {layers} layers: leave some to be trained"
            )
        dropout = LayerDropout(layers, self.p_max, self.seed, "exponential" if self.scratch else "constant", self.steps)
        weights, curriculum = ExitWeights(layers, self.e_scale, self.exit_share), self._curriculum(layers)
        return Plan(curriculum, dropout, weights, self._trained(curriculum, weights))

    def _curriculum(self, layers: int) -> Curriculum:
        if self.exits:
            return Fixed(layers, frozenset(self.exits))
        if self.curriculum == "gradual":
            return Gradual(layers, self.steps)
        return Rotational(layers, self.period or min(_PERIOD, layers))

    def _trained(self, curriculum: Curriculum, weights: ExitWeights) -> tuple[int, ...]:
        """Exits that have a loss at some step: rotations come again after L steps at most, other curricula only add."""
        turns = (curriculum.on(step) for step in (*range(min(self.steps, weights.layers)), self.steps - 1))
        counted = {layer for on in turns for layer, weight in weights.normalised(on).items() if weight}
        return tuple(sorted(layer + 1 for layer in counted - {weights.layers - 1}))


@dataclass(frozen=True)
class Plan:
    """What a recipe comes to in a model. ``trained`` are the exits that decoding may use afterwards."""

    curriculum: Curriculum
    dropout: LayerDropout
    weights: ExitWeights
    trained: tuple[int, ...]


_PERIOD = 8  # of the paper's settings for continual training

_LARGEST_SEED = 2**32 - 1  # that all generators of numbers take
_MOST = 10**9  # of what is counted

_LEAST = {
    **dict.fromkeys(("steps", "batch", "accumulation", "last_every", "save_every", "log_every", "eval_rows"), 1),
    **dict.fromkeys(("lora_rank", "lora_early_rank", "frozen_layers", "warmup", "seed", "period"), 0),
    "length": 2,
}


def _check_least(recipe: Recipe) -> None:
    for name, least in _LEAST.items():
        value = getattr(recipe, name)
        if value < least:
            raise UsageError(f"{name} {value}: give {least} or more")
        if value > _MOST and name != "seed":
            raise UsageError(f"{name} {value}: give {_MOST} or less")
    if recipe.seed > _LARGEST_SEED:
        raise UsageError(f"seed {recipe.seed}: give {_LARGEST_SEED} or less")


def _check_shares(recipe: Recipe) -> None:
    if not 0 <= recipe.p_max < 1:
        raise UsageError(f"p_max {recipe.p_max} is no dropout probability: give 0 or more, and less than 1")
    if not 0 <= recipe.distil <= 1:
        raise UsageError(f"distil {recipe.distil}: give the teacher's share of the loss, from 0 to 1")
    if not 0 <= recipe.agreement <= 1:
        raise UsageError(f"agreement {recipe.agreement}: give the last layer's share of the exits' loss, from 0 to 1")
    if not 0 <= recipe.exit_share < 1:
        raise UsageError(f"exit_share {recipe.exit_share}: give the exits' share of the loss, from 0 to less than 1")
    for name in ("e_scale", "weight_decay"):
        value = getattr(recipe, name)
        if not 0 <= value < math.inf:
            raise UsageError(f"{name} {value}: give a number from 0 upwards")
    if not 0 < recipe.learning_rate < math.inf:
        raise UsageError(f"learning_rate {recipe.learning_rate}: give a number above 0, such as 3e-5")


def _check_together(recipe: Recipe) -> None:
    """Settings that need another one."""
    if recipe.last_every > 1 and not (recipe.agreement and recipe.exits and (recipe.exit_share or recipe.e_scale)):
        raise UsageError(
            "last_every compares exits with the last layer in between: give exits, agreement (such as 1), and "
            "exit_share or e_scale too"
        )
    if recipe.exits and not (recipe.exit_share or recipe.e_scale):
        raise UsageError("exits with e_scale 0 would learn nothing: give e_scale, such as 0.2, or exit_share")
    if recipe.accumulation % recipe.last_every:
        raise UsageError(
            f"last_every {recipe.last_every} does not divide accumulation {recipe.accumulation}: each step needs as "
            "many micro-batches with a loss of the last layer as any other"
        )
    if recipe.last_every > 1 and recipe.frozen_layers >= max(recipe.exits):
        raise UsageError(
            f"frozen_layers {recipe.frozen_layers} leaves only the last layer to learn, and last_every "
            f"{recipe.last_every} has it rest: leave out one of them"
        )
    if recipe.warmup >= recipe.steps:
        raise UsageError(
            f"warmup {recipe.warmup} of {recipe.steps} steps leaves none for the full learning rate: give less"
        )
    if recipe.lora_early_rank and not (recipe.lora_rank and recipe.exits):
        raise UsageError("lora_early_rank is the rank before the last trained exit: give lora_rank and exits too")
    if recipe.adapter and not recipe.lora_rank:
        raise UsageError(f"adapter {recipe.adapter} is to be trained further: give its lora_rank too")


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f'{name} "{value}" is not known: {did_you_mean(value, known)}')


def _as(kind: str, name: str, value: Any) -> Any:
    """``value`` as the field ``name`` of ``kind`` has it."""
    if kind.startswith("tuple"):
        one = "int" if "int" in kind else "str"
        several = value if isinstance(value, list | tuple) else [value]
        return tuple(_as(one, name, each) for each in several)
    want: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return _float(name, value)
    if isinstance(value, bool) != (kind == "bool") or not isinstance(value, want[kind]):
        words = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}
        raise UsageError(f"{name} is {value!r}: give {words[kind]}")
    if isinstance(value, str) and "\0" in value:
        raise UsageError(f"{name} is {value!r}, with a character that no name has: leave it out")
    return value


def _float(name: str, value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UsageError(f"{name} is a number of {len(str(value))} digits: give a smaller one") from None
