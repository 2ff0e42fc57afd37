"""What the exit drafter may be told, and the grid of it that is swept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...draft.head import DraftHead, check_head
from ...errors import PlanError, UsageError
from ...text.language_model import LanguageModel

_MOST_EXITS = 16
_MOST_NODES = 64  # of a draft: generation leaves so much room beside a text
_DEPTHS, _WIDTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12), (1, 2)


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """``head`` is "full" or how many words the draft's head knows."""

    exit: int
    depth: int
    width: int = 1
    head: str = "full"

    @property
    def spec(self) -> str:
        """The drafter with this setting."""
        return f"exit:layer={self.exit},depth={self.depth},width={self.width},head={self.head}"

    @property
    def told(self) -> str:
        """The same for a reader."""
        parts = [f"exit {self.exit}", f"depth {self.depth}"]
        parts += [f"width {self.width}"] if self.width > 1 else []
        parts += [f"head {self.head}"] if self.head != "full" else []
        return ", ".join(parts)

    @property
    def step_head(self) -> bool | int:
        """As ``Step.head`` has it."""
        return True if self.head == "full" else int(self.head)


@dataclass(frozen=True)
class Asked:
    """What a caller wants swept; nothing: what the model suggests. ``head`` auto: the whole one and a part of it."""

    exits: Sequence[int] = ()
    depths: Sequence[int] = ()
    widths: Sequence[int] = ()
    head: str = "auto"

    def __post_init__(self) -> None:
        check_head("sweep", self.head)
        for name, values in (("depths", self.depths), ("widths", self.widths)):
            if any(value < 1 for value in values):
                raise UsageError(f"{name} {', '.join(map(str, values))} are out of range: use 1 or more")


@dataclass(frozen=True)
class Grid:
    """Every exit with every depth, width and head, as far as a draft has room for its nodes."""

    exits: tuple[int, ...]
    depths: tuple[int, ...]
    widths: tuple[int, ...] = (1,)
    heads: tuple[str, ...] = ("full",)

    @classmethod
    def of(cls, model: LanguageModel, asked: Asked) -> Grid:
        """Raises PlanError for exits the model has not, UsageError where no setting is left."""
        exits = _exits(model, asked.exits)
        depths, widths = (_sorted(given) for given in (asked.depths or _DEPTHS, asked.widths or _WIDTHS))
        grid = cls(exits, depths, widths, _heads(model, asked.head))
        if not grid.settings:
            raise UsageError(
                f"a draft has room for {_MOST_NODES - 1} tokens: {min(depths)} deep and {min(widths)} wide is too much"
            )
        return grid

    @property
    def settings(self) -> list[Setting]:
        return [
            Setting(exit_layer, depth, width, head)
            for exit_layer in self.exits
            for depth in self.depths
            for width in self.widths
            for head in self.heads
            if 1 + depth * width <= _MOST_NODES
        ]


def _exits(model: LanguageModel, asked: Sequence[int]) -> tuple[int, ...]:
    """Those asked for, else those trained, else some of all."""
    layers = model.network.num_layers
    if layers < 2:
        raise PlanError(f"{model.name} has one layer: there is none to exit at before the last")
    wrong = [layer for layer in asked if not 0 < layer < layers]
    if wrong:
        raise PlanError(f"exit {wrong[0]} is not inside {model.name}: it has {layers} layers, use 1 to {layers - 1}")
    trained = [layer for layer in model.loaded.exits if layer < layers]
    return _sorted(asked or trained or _thinned(layers))


def _thinned(layers: int) -> list[int]:
    """At most ``_MOST_EXITS`` of the layers before the last, evenly."""
    count = min(layers - 1, _MOST_EXITS)
    return [round((number + 1) * (layers - 1) / count) for number in range(count)]


def _heads(model: LanguageModel, head: str) -> tuple[str, ...]:
    part = DraftHead(head, model.network).size
    if part >= model.network.vocab_size:
        return ("full",)
    return ("full", str(part)) if head == "auto" else (str(part),)


def _sorted(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(set(values)))
