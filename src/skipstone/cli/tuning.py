"""What ``skipstone tune`` does once its model is there: a bar while it searches, the plan at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ..store import PlanShelf
from ..text.language_model import LanguageModel
from ..text.progress import to_stderr
from ..text.prompt import Prompt
from ..text.tuning import Tuning
from .kept_text import description


def tune_now(model: LanguageModel, prompts: Sequence[Prompt], task: str, tokens: int, as_json: bool) -> None:
    """However the search ends, what it found is kept and shown. Raises StoreError where it cannot be kept."""
    tuning = Tuning(model, task, tokens)
    try:
        _search(tuning, prompts)
    except BaseException:
        if tuning.found is not None:
            _keep(tuning, as_json)
        raise
    _keep(tuning, as_json)


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
    best = "" if tuning.best is None else f", the best at {tuning.best.speed:.2f} × plain decoding"
    return f"{tuning.trials} plans tried{best}"


def _keep(tuning: Tuning, as_json: bool) -> None:
    found, shelf, task = tuning.found, tuning.model.plans, tuning.task
    best = None if tuning.best is None else tuning.best.speed
    about = {"trials": tuning.trials, "best_speed": best, "settled": tuning.settled}
    if found is None or not isinstance(shelf, PlanShelf):
        print(json.dumps({"kept": None, **about}) if as_json else _nothing(tuning))
        return
    kept = shelf.keep(task, found)
    if as_json:
        print(json.dumps({"kept": {"task": task, **kept.task(task).to_json()}, **about}))
    else:
        print(description(kept, task))


def _nothing(tuning: Tuning) -> str:
    if tuning.best is None:
        return "no plan was tried: the texts are too short; give more prompts or a higher --max-new-tokens"
    speed = f"{tuning.best.speed:.2f} × plain decoding"
    return f"no plan pays here, so none is kept: the best of {tuning.trials} comes to {speed}"
