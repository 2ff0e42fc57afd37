"""For plugin authors: a tiny network to test with, and checks that a drafter or a network keeps its contract.

def test_my_drafter():
    check_drafter(lambda network: MyDrafter(MyDrafter.Options(), network))
"""

from .drafters import check_drafter, plain_text
from .networks import check_network
from .tiny import tiny_network

__all__ = ["check_drafter", "check_network", "plain_text", "tiny_network"]
