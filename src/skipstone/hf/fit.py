"""A network for a model of any type: each wiring its layers' names allow, until one gives the model's own logits."""

from __future__ import annotations

from typing import Any

from ..errors import ParityError
from .body import body_of, check_supported
from .families import wirings_of
from .network import HFNetwork
from .selfcheck import check_parity


def fit(model: Any) -> tuple[HFNetwork, float]:
    """The network and its parity gap. Raises UnsupportedModel, and ParityError where no wiring fits."""
    config = model.config.get_text_config()
    check_supported(model, config)
    _, layers = body_of(model)
    failure: ParityError | None = None
    for wiring in wirings_of(layers[0], config):
        network = HFNetwork(model, wiring)
        try:
            return network, check_parity(network)
        except ParityError as error:
            failure = failure or error
    raise failure if failure is not None else ParityError("no wiring to try")
