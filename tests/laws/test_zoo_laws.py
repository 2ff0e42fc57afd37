"""The laws on every type of model: no drafter changes a text, no branch, row or chunk a number."""

from collections.abc import Callable

import pytest
from zoo import FIRST, ZOO, network

from skipstone.draft.exit import ExitDrafter
from skipstone.draft.skip import SkipDrafter
from skipstone.drafting import Drafter
from skipstone.network import Network
from skipstone.testing import check_drafter, check_network


def _skip(net: Network) -> Drafter:
    return SkipDrafter(SkipDrafter.Options(plan="uniform", depth=3, width=2), net)


def _exit(net: Network) -> Drafter:
    return ExitDrafter(ExitDrafter.Options(layer=2, depth=3), net)


@pytest.mark.parametrize("name", FIRST)
def test_every_type_keeps_the_contract_of_a_network(name: str):
    check_network(network(name), tolerance=1e-6 if ZOO[name].rounds else None)


@pytest.mark.parametrize("drafter", [_skip, _exit])
@pytest.mark.parametrize("name", FIRST)
def test_no_drafter_changes_the_text_of_any_type(name: str, drafter: Callable[[Network], Drafter]):
    check_drafter(drafter, network(name), brief=True)


@pytest.mark.full_zoo
@pytest.mark.parametrize("drafter", [_skip, _exit])
@pytest.mark.parametrize("name", ZOO)
def test_no_drafter_changes_any_text_of_any_configuration(name: str, drafter: Callable[[Network], Drafter]):
    check_drafter(drafter, network(name))
