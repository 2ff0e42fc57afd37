"""Everything on disk: the model cache, its downloads and what is installed in it."""

from .atomic import write_json
from .converted import converted
from .costs import cost_key, load_costs, measured_costs, save_costs
from .folders import Folders, cache_folders
from .hub import hub_snapshot
from .kept_exit import KeptExit
from .kept_plan import KeptPlan, Promise
from .manifest import verify
from .plan_file import PlanFile
from .plans import ModelPlans, all_plans, change_plans, load_plans
from .pull import Source, find_installed, pull
from .shelf import PlanShelf
from .sources import Alias, find_alias, known_aliases

__all__ = [
    "Alias",
    "Folders",
    "KeptExit",
    "KeptPlan",
    "ModelPlans",
    "PlanFile",
    "PlanShelf",
    "Promise",
    "Source",
    "all_plans",
    "cache_folders",
    "change_plans",
    "converted",
    "cost_key",
    "find_alias",
    "find_installed",
    "hub_snapshot",
    "known_aliases",
    "load_costs",
    "load_plans",
    "measured_costs",
    "pull",
    "save_costs",
    "verify",
    "write_json",
]
