"""skipstone train"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o

if TYPE_CHECKING:
    from ..train.result import Trained

_WHAT, _HOW, _RUN = "What is trained", "Training", "The run"


def train(
    model: Annotated[
        str | None, typer.Argument(help="A short name, a folder, a GGUF file or a hub id.", show_default=False)
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="JSONL (text, messages, prompt and response; .gz too), text, or a data set of the hub as owner/name, "
            "owner/name:config or owner/name/split; repeatable.",
        ),
    ] = None,
    output: Annotated[str | None, typer.Option(metavar="DIR", help="The folder to write; must not exist.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A recipe as TOML (Python 3.11) or JSON; flags go before what it says."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    exits: Annotated[
        str | None,
        typer.Option(metavar="E,E,…", help="Train these exits at every step.", rich_help_panel=_WHAT),
    ] = None,
    curriculum: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Without --exits: rotational (the default) or gradual, over all layers.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    period: Annotated[
        int | None,
        typer.Option(metavar="R", help="Rotational: every R-th layer at a step. [default: 8]", rich_help_panel=_WHAT),
    ] = None,
    lora_rank: Annotated[
        int | None,
        typer.Option(metavar="N", help="Train a LoRA adapter instead of the weights.", rich_help_panel=_WHAT),
    ] = None,
    lora_early_rank: Annotated[
        int | None,
        typer.Option(metavar="N", help="The same before the last trained exit.", rich_help_panel=_WHAT),
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Go on with this adapter, of the same ranks.", rich_help_panel=_WHAT),
    ] = None,
    frozen_layers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Leave the first N layers as they are. [default: 0]", rich_help_panel=_WHAT),
    ] = None,
    scratch: Annotated[
        bool, typer.Option("--scratch", help="Start from random weights.", rich_help_panel=_WHAT)
    ] = False,
    p_max: Annotated[
        float | None, typer.Option(metavar="P", help="Dropout of the last layer. [default: 0.1]", rich_help_panel=_HOW)
    ] = None,
    e_scale: Annotated[
        float | None, typer.Option(metavar="X", help="How much early exits count. [default: 0.2]", rich_help_panel=_HOW)
    ] = None,
    distil: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Share of the loss that compares with the starting model. [default: 0]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    exit_share: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Share of the loss the exits have. [default: as e_scale says]", rich_help_panel=_HOW
        ),
    ] = None,
    agreement: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Share of the exits' loss that compares with the last layer. [default: 0]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    last_every: Annotated[
        int | None,
        typer.Option(metavar="N", help="The last layer learns in every N-th batch. [default: 1]", rich_help_panel=_HOW),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(metavar="X", help="The highest; it falls as a cosine. [default: 3e-5]", rich_help_panel=_HOW),
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(metavar="N", help="Steps in which it rises. [default: 0]", rich_help_panel=_HOW)
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(metavar="X", help="AdamW's. [default: 0]", rich_help_panel=_HOW)
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Of the optimizer. [default: 1000]", rich_help_panel=_RUN)
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="Rows at once. [default: 1]", rich_help_panel=_RUN)
    ] = None,
    accumulation: Annotated[
        int | None, typer.Option(metavar="N", help="Batches to a step. [default: 8]", rich_help_panel=_RUN)
    ] = None,
    length: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a row. [default: 1024]", rich_help_panel=_RUN)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Of rows' order, dropout and first weights. [default: 0]", rich_help_panel=_RUN),
    ] = None,
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Less memory, more time.", rich_help_panel=_RUN)
    ] = False,
    fsdp: Annotated[
        bool, typer.Option("--fsdp", help="Spread the weights over torchrun's processes.", rich_help_panel=_RUN)
    ] = False,
    precision: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="auto, float32 or bfloat16. [default: auto]", rich_help_panel=_RUN),
    ] = None,
    stored: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="Of the weights written. [default: float32]", rich_help_panel=_RUN),
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="auto, cpu or cuda. [default: auto]", rich_help_panel=_RUN)
    ] = None,
    eval_data: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Instead of holding some of the data out.", rich_help_panel=_RUN),
    ] = None,
    eval_rows: Annotated[
        int | None, typer.Option(metavar="N", help="Rows evaluated at most. [default: 32]", rich_help_panel=_RUN)
    ] = None,
    save_every: Annotated[
        int | None, typer.Option(metavar="N", help="Steps between checkpoints. [default: 100]", rich_help_panel=_RUN)
    ] = None,
    log_every: Annotated[
        int | None,
        typer.Option(metavar="N", help="Steps between lines of the log. [default: 10]", rich_help_panel=_RUN),
    ] = None,
    cache: o.Cache = None,
    offline: o.Offline = False,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Train a model for early exits, with layer dropout and the early-exit loss of LayerSkip."""
    given = {name: value for name, value in locals().items() if name not in _OTHERS}
    flags = {name: value for name, value in given.items() if not (value is None or value is False or value == [])}
    from .training import Training

    flags.update({} if exits is None else {"exits": _numbers(exits)})
    trained = Training.of(config, flags, resume).run(cache, offline)
    if trained.first_process:
        print(json.dumps(trained.report()) if as_json else _told(trained))


_OTHERS = ("config", "resume", "cache", "offline", "as_json", "debug")


def _numbers(given: str) -> list[int]:
    from ..errors import UsageError

    try:
        return [int(number) for number in given.split(",")]
    except ValueError as error:
        raise UsageError(f'--exits "{given}" is no list of layers: write 4,8') from error


def _told(trained: Trained) -> str:
    """A line for each trained exit, and one for what the last layer paid."""
    lines = [f"{'exit':>6} {'loss before':>12} {'after':>8} {'agreement before':>18} {'after':>8}"]
    for before, after in zip(trained.before.exits, trained.after.exits, strict=True):
        if before.exit in trained.exits:
            lines.append(
                f"{before.exit:>6} {before.loss:>12.3f} {after.loss:>8.3f} "
                f"{before.agreement:>18.1%} {after.agreement:>8.1%}"
            )
    last: dict[str, Any] = trained.report()["last_layer"]
    lines.append(
        f"last layer: loss {last['loss_before']:.3f} before, {last['loss_after']:.3f} after; "
        f"{last['same_choice_as_before']:.1%} of its choices are those of the start"
    )
    return "\n".join(lines)
