"""What ``skipstone tune`` does once its model is there: a bar while it searches, the plan at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ..errors import StoreError
from ..search.found import Found
from ..search.trust import MARGIN
from ..store import PlanShelf
from ..text.language_model import LanguageModel
from ..text.progress import to_stderr
from ..text.prompt import Prompt
from ..text.tuning import Tuning
from .kept_text import description
from .loading import DISTURBED
from .patience import one_interrupt


def tune_now(model: LanguageModel, prompts: Sequence[Prompt], task: str, tokens: int, as_json: bool) -> None:
    """However the search ends, what it found is shown and kept. Raises StoreError where it cannot be kept."""
    tuning = Tuning(model, task, tokens)
    with one_interrupt():
        try:
            _search(tuning, prompts)
        except BaseException:
            _save(tuning, as_json)
            raise
        _keep(tuning, as_json)


def _save(tuning: Tuning, as_json: bool) -> None:
    """What was found before something else ended the search: that is what the command fails with."""
    if tuning.found is None:
        to_stderr(f"no plan has paid so far ({_news(tuning)}): nothing is kept")
        return
    try:
        _keep(tuning, as_json)
    except StoreError as error:
        to_stderr(f"the plan found is not kept: {error}")


def _search(tuning: Tuning, prompts: Sequence[Prompt]) -> None:
    """A bar in a terminal, a line for each prompt elsewhere."""
    bar = Progress(
        BarColumn(),
        TextColumn("{task.completed}/{task.total} prompts"),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task, shown = bar.add_task("", total=len(prompts)), 0
        for done in tuning.run(prompts):
            bar.update(task, completed=done, description=_news(tuning))
            if bar.disable and done > shown:
                shown = done
                to_stderr(f"prompt {done}/{len(prompts)}: {_news(tuning)}")
    to_stderr("nothing is left to try" if tuning.settled else "the prompts are used up; more would go on from here")


def _news(tuning: Tuning) -> str:
    best = "" if tuning.best is None else f", the best promises {tuning.best.speed:.2f} × plain decoding"
    return f"{tuning.trials} plans tried{best}"


def _keep(tuning: Tuning, as_json: bool) -> None:
    found, shelf, task = tuning.found, tuning.model.plans, tuning.task
    best = None if tuning.best is None else tuning.best.speed
    figures = {"trials": tuning.trials, "best_speed": best, "settled": tuning.settled}
    about: dict[str, Any] = {**figures, "search": tuning.tuner.report().to_json()}
    if tuning.model.costs is not None and not tuning.model.costs.table.calm:
        to_stderr(f"speeds may be off, so tune again on a quiet machine: {DISTURBED}")
    if found is None or not isinstance(shelf, PlanShelf):
        print(json.dumps({"kept": None, **about}) if as_json else _nothing(tuning))
        return
    keep = _keep_and_say if as_json else _say_and_keep
    keep(shelf, task, found, about)


def _say_and_keep(shelf: PlanShelf, task: str, found: Found, about: Mapping[str, Any]) -> None:
    """Shown first: keeping may fail, or wait for another process. Kept also where nobody reads."""
    try:
        print(description(shelf.to_keep(task, found), task), flush=True)
    finally:
        shelf.keep(task, found)


def _keep_and_say(shelf: PlanShelf, task: str, found: Found, about: Mapping[str, Any]) -> None:
    """One object that says whether it was kept; where it was not, ``found`` is what there was to keep."""
    try:
        kept = shelf.keep(task, found)
    except BaseException:
        plan = shelf.to_keep(task, found).task(task)
        print(json.dumps({"kept": None, "found": {"task": task, **plan.to_json()}, **about}), flush=True)
        raise
    print(json.dumps({"kept": {"task": task, **kept.task(task).to_json()}, **about}))


def _nothing(tuning: Tuning) -> str:
    if tuning.best is None:
        return "no plan was tried: the texts are too short; give more prompts or a higher --max-new-tokens"
    speed = f"{tuning.best.speed:.2f} × plain decoding"
    said = f"no plan pays here, so none is kept: the best of {tuning.trials} promises {speed}"
    return said if tuning.best.speed <= MARGIN else f"{said}, which its own drafts did not bear out"
