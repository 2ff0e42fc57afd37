"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _debug(context: typer.Context, value: bool) -> bool:
    if value:
        context.find_root().obj.debug = True
    return value


_MODEL, _SAMPLING = "Model", "Sampling"

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_debug)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Cache = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder for models, costs and plans, instead of the user's cache.",
        rich_help_panel=_MODEL,
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Make no network call.", rich_help_panel=_MODEL)]
Drafter = Annotated[
    str,
    typer.Option(
        metavar="NAME[:KEY=VALUE,…]",
        help="What drafts; see [bold]skipstone drafters[/bold]. none: plain decoding.",
        rich_help_panel=_MODEL,
    ),
]
Dtype = Annotated[
    str,
    typer.Option(metavar="TYPE", help="auto, float32, bfloat16, float16 or float64.", rich_help_panel=_MODEL),
]
Weights = Annotated[
    str,
    typer.Option(
        metavar="KIND",
        help="How the CPU holds a float32 model's: auto (float16 where nothing is lost, else float32), float32, "
        "float16, bfloat16, or stock, as transformers has them.",
        rich_help_panel=_MODEL,
    ),
]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="One shape for every run: slower, but equal to the last bit.", rich_help_panel=_MODEL),
]
EarlyExit = Annotated[
    int | None,
    typer.Option(
        metavar="E",
        help="Lossy: stop at layer E and speak from there, faster. Not the model's own text, and labelled so.",
        rich_help_panel=_MODEL,
    ),
]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda, cuda:1, …", rich_help_panel=_MODEL)]
MaxNewTokens = Annotated[int, typer.Option(metavar="N", help="Tokens generated at most.")]
Temperature = Annotated[
    float | None,
    typer.Option(metavar="T", help="Sample, the wilder the higher; 0: greedy decoding.", rich_help_panel=_SAMPLING),
]
TopK = Annotated[
    int | None, typer.Option(metavar="K", help="Sample of the K best tokens only.", rich_help_panel=_SAMPLING)
]
TopP = Annotated[
    float | None,
    typer.Option(metavar="P", help="Sample of the best tokens that make up P.", rich_help_panel=_SAMPLING),
]
MinP = Annotated[
    float | None,
    typer.Option(
        metavar="P", help="Sample of tokens at least P times as likely as the best.", rich_help_panel=_SAMPLING
    ),
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(metavar="X", help="Divide scores of tokens that occurred; 1: off.", rich_help_panel=_SAMPLING),
]
PresencePenalty = Annotated[
    float, typer.Option(metavar="X", help="Subtract from tokens of the output.", rich_help_panel=_SAMPLING)
]
FrequencyPenalty = Annotated[
    float,
    typer.Option(metavar="X", help="Subtract from tokens of the output, each time.", rich_help_panel=_SAMPLING),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="The same seed gives the same text.", rich_help_panel=_SAMPLING)
]

PromptsFile = Annotated[
    str | None,
    typer.Option("--prompts", metavar="FILE", help="One a line, as text or JSON; -: standard input. Required."),
]
TextTokens = Annotated[
    int, typer.Option("--max-new-tokens", metavar="N", help="Tokens generated for each prompt at most.")
]
AsChat = Annotated[bool, typer.Option("--chat/--raw", help="Whether a text is a user's message.")]
