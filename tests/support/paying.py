"""Costs by which leaving sublayers out pays or does not, whatever the machine that the tests run on is busy with."""

from __future__ import annotations

from typing import Any

import pytest
from costly import flat, line

from skipstone.cost import CostTable


def layers_cost_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who measures costs is told that layers are all that takes time, and that verifying many nodes takes little."""
    _told(monkeypatch, layer=1.0, rest=0.01)


def layers_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who measures costs is told that a step takes the same time whatever it leaves out."""
    _told(monkeypatch, layer=1e-6, rest=1.0)


def _told(monkeypatch: pytest.MonkeyPatch, layer: float, rest: float) -> None:
    def measure(network: Any, budget_s: float = 0.0) -> CostTable:
        sublayer, other = line(layer, 1.1 * layer), flat(rest)
        return CostTable(network.num_layers, network.vocab_size, other, sublayer, flat(0.0), 0.0, sublayer, other)

    monkeypatch.setattr("skipstone.store.costs.measure", measure)
    monkeypatch.setattr("skipstone.search.pace.Pace.compare", lambda *_: None)  # the clock has no say,
    monkeypatch.setattr("skipstone.cost.CostModel.observe", lambda *_: None)  # nor have steps that were kept waiting
