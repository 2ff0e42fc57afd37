"""Costs are measured once, kept whole, and a damaged file is no more than a line."""

import json
import os
from dataclasses import replace
from functools import partial

import pytest
import torch
from costly import CostlyNetwork, flat, line

from skipstone.cost import CostTable
from skipstone.errors import StoreError
from skipstone.store import Folders, cost_key, costs, load_costs, measured_costs, save_costs

TABLE = CostTable(30, 4800, flat(1.0), line(1.0, 3.0), flat(0.0), 0.5, line(2.0, 2.5), flat(4.0))


@pytest.fixture
def told():
    return []


def test_what_is_saved_is_loaded(tmp_path, told):
    save_costs(tmp_path, "key", TABLE)
    assert load_costs(tmp_path, "key", told.append) == TABLE
    assert load_costs(tmp_path, "other", told.append) is None
    assert not told


def edited(**changes):
    return lambda text: json.dumps({**json.loads(text), **changes})


def edited_table(**changes):
    return edited(table={**TABLE.to_json(), **changes})


def times(value, first_point=1):
    return {"at": [first_point, 32], "values": [value, value]}


def surface(value):
    return {"at": [1], "curves": [{"at": [0], "values": [value]}]}


NO_TIME = {"overhead": surface(0), "attention": times(0), "mlp": times(0), "head": surface(0), "row": 0}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[" * 100_000,
        lambda text: "[]",
        lambda text: "null",
        edited(format=99),
        edited(key="another"),
        edited(table=None),
        edited(table={"format": 1}),
        edited_table(**NO_TIME),
        edited_table(attention=times(1e308)),
        edited_table(spread=float("nan")),
        edited_table(spread=-5),
        edited_table(mlp=times(2, first_point=float("-inf"))),
    ],
)
def test_a_damaged_file_is_told_and_set_aside(tmp_path, told, damage):
    save_costs(tmp_path, "key", TABLE)
    path = tmp_path / "key.json"
    path.write_text(damage(path.read_text()))
    assert load_costs(tmp_path, "key", told.append) is None
    assert len(told) == 1
    assert str(path) in told[0]
    assert not path.exists()
    assert load_costs(tmp_path, "key", told.append) is None
    assert len(told) == 1


def test_bytes_that_are_no_text_are_told(tmp_path, told):
    (tmp_path / "key.json").write_bytes(b"\xff\xfe\x00")
    assert load_costs(tmp_path, "key", told.append) is None
    assert len(told) == 1


def test_a_network_is_measured_once(tmp_path, told, monkeypatch):
    network, folders = CostlyNetwork(), Folders(tmp_path)
    monkeypatch.setattr(costs, "measure", partial(costs.measure, clock=network.clock))
    first = measured_costs(network, "model", folders, told.append, budget_s=0.05)
    calls = network.calls
    assert measured_costs(network, "model", folders, told.append, budget_s=0.05) == first
    assert network.calls == calls
    assert len(told) == 1
    assert os.listdir(folders.costs) == [f"{cost_key(network, 'model')}.json"]


def disturbed(spread):
    return lambda network, budget_s: replace(TABLE, spread=spread)


def test_what_other_work_disturbed_is_measured_again_and_the_calmer_stays(tmp_path, told, monkeypatch):
    network, folders = CostlyNetwork(), Folders(tmp_path)
    found = []
    for spread in (1.6, 2.4, 1.1, 1.0):
        monkeypatch.setattr(costs, "measure", disturbed(spread))
        found.append(measured_costs(network, "model", folders, told.append).spread)
    assert found == [1.6, 1.6, 1.1, 1.1]
    assert ["again" in line for line in told] == [False, True, True]


def test_costs_that_cannot_be_kept_are_measured_all_the_same(tmp_path, told):
    (tmp_path / "costs").write_text("in the way")
    table = measured_costs(CostlyNetwork(), "model", Folders(tmp_path), told.append, budget_s=0.05)
    assert table.layers == 30
    assert "not kept" in told[-1]


def test_saving_where_nothing_can_be_written_is_a_store_error(tmp_path):
    (tmp_path / "costs").write_text("in the way")
    with pytest.raises(StoreError):
        save_costs(tmp_path / "costs", "key", TABLE)


def test_the_key_tells_apart_what_costs_depend_on():
    network = CostlyNetwork()
    others = [
        replace(network, num_layers=31),
        replace(network, vocab_size=4801),
        replace(network, dtype=torch.float64),
    ]
    keys = {cost_key(one, "model") for one in (network, *others)} | {cost_key(network, "model in float16")}
    assert len(keys) == 5
    assert cost_key(CostlyNetwork(), "model") == cost_key(network, "model")


def test_the_key_depends_on_the_number_of_threads(monkeypatch):
    before = cost_key(CostlyNetwork())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert cost_key(CostlyNetwork()) != before
