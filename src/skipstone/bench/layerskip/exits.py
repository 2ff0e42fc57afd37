"""Exits of the checkpoint and of the model it started from, on held-out texts: losses and agreement."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...train.data import Rows, rows_of
from ...train.texts import Text
from ..efficiency.lab import Lab
from ..efficiency.part import CannotMeasure, Figure, Findings, Part
from .judged import Judged
from .trial import Trial

_SEED = 0


def part(trial: Trial) -> Part:
    figures = (
        Figure("exits", "choices of each exit equal to the last layer's, of 1: by text, before and after, exit"),
        Figure("last_layer_loss_before", "loss of the last layer by text, of the model the checkpoint started from"),
        Figure("last_layer_loss_after", "the same of the checkpoint"),
        Figure("wikitext_loss_before", "that on WikiText-2, text of a kind that few train for exits on"),
        Figure("wikitext_loss_after", "what training cost there"),
    )
    return Part("exits", figures, partial(run, trial))


def run(trial: Trial, lab: Lab) -> Findings:
    """The rows are those of the base's tokenizer, for both."""
    base = trial.models.another(trial.checkpoint.base)
    rows = _rows(trial, base)
    tokens = _tokens(trial, base)
    before = _figures(trial, base, rows, lab)
    del base
    gc.collect()  # two models at once are more than some machines hold
    _check_tokens(trial, tokens)
    after = _figures(trial, trial.models, rows, lab)
    found: dict[str, Any] = {
        "exits": {text: {"before": _agreement(before[text]), "after": _agreement(after[text])} for text in rows},
        "exit_intervals": {text: _intervals(after[text], trial.checkpoint.exits) for text in rows},
        "exit_losses": {text: {"before": _losses(before[text]), "after": _losses(after[text])} for text in rows},
        "last_layer_loss_before": {text: before[text].last_loss for text in rows},
        "last_layer_loss_after": {text: after[text].last_loss for text in rows},
        "last_layer_same_choice": {text: after[text].same_choices(before[text]) for text in rows},
        "tokens_evaluated": {text: figures.tokens for text, figures in after.items()},
    }
    losses = {f"wikitext_loss_{when}": found[f"last_layer_loss_{when}"]["wikitext"] for when in ("before", "after")}
    return {**found, **losses}


def _tokens(trial: Trial, models: Any) -> list[int]:
    """Of some text."""
    tokens: list[int] = models.language_model("stock").tokenizer.encode(trial.sources.held_out_stories()[0])
    return tokens


def _check_tokens(trial: Trial, tokens: list[int]) -> None:
    """Raises CannotMeasure where the checkpoint was not made of the base: it would read other words."""
    if tokens != _tokens(trial, trial.models):
        raise CannotMeasure(
            f"{trial.checkpoint.name} has other tokens than {trial.checkpoint.base}: give the model it was made of "
            "as --base"
        )


def _rows(trial: Trial, base: Any) -> dict[str, Rows]:
    """By text; at even distances in an order that a seed decides."""
    extent, tokenizer = trial.extent, base.language_model("stock").tokenizer
    held_out = trial.sources.held_out(tokenizer)
    length = min(extent.length, base.language_model("stock").network.context)
    return {
        name: rows_of([Text(text) for text in texts], tokenizer, length, _SEED, name).spread(extent.rows)
        for name, texts in held_out.items()
    }


def _figures(trial: Trial, models: Any, rows: dict[str, Rows], lab: Lab) -> dict[str, Judged]:
    model = models.language_model("stock").loaded.transformers_model()
    exits = trial.exits(model.config.get_text_config().num_hidden_layers)
    found: dict[str, Judged] = {}
    for text, some in rows.items():
        few = some.spread(trial.extent.few_rows)
        told = f"{len(some)} rows of {text}, {len(few)} of them at exits {', '.join(map(str, exits))}"
        lab.tell(f"  {models.name} on {told}")
        found[text] = Judged.of(model, some, few, trial.checkpoint.exits, exits)
    models.forget("stock")
    return found


def _agreement(judged: Judged) -> dict[str, float]:
    return {str(each): judged.agreement(each) for each in judged.exits}


def _intervals(judged: Judged, trained: Sequence[int]) -> dict[str, list[float]]:
    return {str(each): judged.agreement_interval(each) for each in trained}


def _losses(judged: Judged) -> dict[str, float]:
    return {str(each): judged.loss(each) for each in judged.exits}
