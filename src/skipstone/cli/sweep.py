"""skipstone sweep"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as o

_WHAT = "What to sweep"


def sweep(
    model: Annotated[str, typer.Argument(help="A short name, a folder, a GGUF file or a hub id.")] = "smollm2-135m",
    prompts: o.PromptsFile = None,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="The label to keep the preset under, for drafter exit:task=NAME.")
    ] = "default",
    tokens: o.TextTokens = 128,
    chat: o.AsChat = False,
    exits: Annotated[
        str | None,
        typer.Option(
            metavar="E,E-E,…",
            help="Layers to exit at. [default: those trained, else up to 16 of all]",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    depths: Annotated[
        str | None,
        typer.Option(metavar="D,D-D,…", help="Tokens drafted. [default: 1-6,8,10,12]", rich_help_panel=_WHAT),
    ] = None,
    widths: Annotated[
        str | None,
        typer.Option(metavar="W,W-W,…", help="Choices kept at each depth. [default: 1,2]", rich_help_panel=_WHAT),
    ] = None,
    head: Annotated[
        str,
        typer.Option(
            metavar="WORDS",
            help="Words the draft's head knows: full, how many, or auto, which tries both.",
            rich_help_panel=_WHAT,
        ),
    ] = "auto",
    best: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Settings to measure. [default: 3, a tenth of all at most, and none without hope]",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Measure all settings.", rich_help_panel=_WHAT)] = False,
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Whether to keep the best as the task's preset.")
    ] = True,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the heat map into this file, too.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every setting into this file, too.")] = None,
    dtype: o.Dtype = "auto",
    weights: o.Weights = "auto",
    device: o.Device = "auto",
    cache: o.Cache = None,
    offline: o.Offline = False,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Find the exit, depth and width that draft fastest for your prompts, and keep them as the task's preset.

    Generates each text once and looks at all exits in one pass over it; what every setting would come to follows from
    that and from what steps cost here. Only the most promising ones are then measured, beside plain decoding.
    """
    from ..bench.sweep.setting import Asked
    from ..bench.sweep.sweep import Extent
    from ..draft.label import check_task
    from ..errors import UsageError
    from ..text.prompt import as_chat
    from ..text.prompts_file import read_prompts
    from .loading import load
    from .numbers import numbers
    from .sweeping import Files, sweep_now

    if prompts is None:
        raise UsageError("no prompts: give a file of them with --prompts, such as what the model is used for")
    lists = (numbers("--exits", exits), numbers("--depths", depths), numbers("--widths", widths))
    asked, extent = Asked(*lists, head), Extent(tokens, best, full)
    check_task("sweep", task)
    if not task:
        raise UsageError("sweep: a preset needs a label to be asked for by: give --task NAME, or leave it out")
    given = read_prompts(prompts)
    chosen = [as_chat(prompt) if chat else prompt for prompt in given]
    loaded = load(model, dtype=dtype, weights=weights, device=device, cache=cache, offline=offline)
    sweep_now(loaded, chosen, (asked, extent), task if keep else None, Files(png, csv, as_json))
