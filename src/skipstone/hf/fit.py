"""A network for a model of any type: each wiring its layers' names allow, until one gives the model's own logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

from ..errors import ModelError, ParityError, UnsupportedModel, out_of_memory
from .body import body_of, check_supported
from .families import wirings_of
from .network import HFNetwork
from .reason import reason
from .selfcheck import Probe, check_parity, probes_of
from .wiring import Wiring


@dataclass(frozen=True)
class Fitted:
    """A network, its parity gap, and the probes that showed it."""

    network: HFNetwork
    gap: float
    probes: list[Probe]


def fit(model: Any) -> tuple[HFNetwork, float]:
    """The network and its parity gap. Raises UnsupportedModel, and ParityError where no wiring fits."""
    found = fitted(model)
    return found.network, found.gap


def fitted(model: Any) -> Fitted:
    """``fit`` with what the model said to the probes, for those who want to compare more with it."""
    with _in_our_words(model):
        config = model.config.get_text_config()
        check_supported(model, config)
        _, layers = body_of(model)
        wirings = wirings_of(layers[0], config)
    # some multimodal wrappers leave out the logit factor of their text part
    finishes = (True,) if config is model.config else (True, False)
    failures: list[ModelError] = []
    for wiring, finish in product(wirings, finishes):
        outcome = _try(model, wiring, finish)
        if not isinstance(outcome, ModelError):
            return outcome
        failures.append(outcome)
    raise next((error for error in failures if isinstance(error, ParityError)), failures[0])


def _try(model: Any, wiring: Wiring, finish: bool) -> Fitted | ModelError:
    try:
        with _in_our_words(model):
            network = HFNetwork(model, wiring, finish)
            probes = probes_of(network)
            return Fitted(network, check_parity(network, probes), probes)
    except (ParityError, UnsupportedModel) as error:
        return error


@contextmanager
def _in_our_words(model: Any) -> Iterator[None]:
    """Whatever a model raises that was not made to be run layer by layer says that it cannot be."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        kind = getattr(model.config, "model_type", type(model).__name__)
        raise UnsupportedModel(f'model type "{kind}" cannot be run layer by layer: {reason(error)}') from error
