"""Everything on disk: the model cache, its downloads and what is installed in it."""

from .atomic import write_json
from .converted import converted
from .costs import cost_key, load_costs, measured_costs, save_costs
from .folders import Folders, cache_folders
from .hub import hub_snapshot
from .manifest import verify
from .pull import Source, find_installed, pull
from .sources import Alias, find_alias, known_aliases

__all__ = [
    "Alias",
    "Folders",
    "Source",
    "cache_folders",
    "converted",
    "cost_key",
    "find_alias",
    "find_installed",
    "hub_snapshot",
    "known_aliases",
    "load_costs",
    "measured_costs",
    "pull",
    "save_costs",
    "verify",
    "write_json",
]
