"""skipstone tune"""

from __future__ import annotations

from typing import Annotated

import typer

from . import options as o


def tune(
    model: Annotated[str, typer.Argument(help="A short name, a folder, a GGUF file or a hub id.")] = "smollm2-135m",
    prompts: o.PromptsFile = None,
    task: Annotated[
        str, typer.Option(metavar="NAME", help="The label to keep the plan under, as in --drafter skip:task=NAME.")
    ] = "",
    tokens: o.TextTokens = 128,
    chat: o.AsChat = False,
    dtype: o.Dtype = "auto",
    weights: o.Weights = "auto",
    device: o.Device = "auto",
    cache: o.Cache = None,
    offline: o.Offline = False,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Search now for the sublayers that a draft can do without, and keep the plan for --drafter skip.

    Generates for the prompts, trying a plan at every step, until nothing is left to try and the plan found has drafted
    three texts more, or the prompts end. Ctrl-C ends it earlier: what was found by then is kept.
    """
    from ..draft.skip import SkipDrafter
    from ..errors import RequestError, UsageError
    from ..text.prompt import as_chat
    from ..text.prompts_file import read_prompts
    from .loading import load
    from .tuning import tune_now

    if prompts is None:
        raise UsageError("no prompts: give a file of them with --prompts, such as what the model is used for")
    if tokens < 1:
        raise RequestError(f"--max-new-tokens {tokens} shows nothing: use 1 or more")
    SkipDrafter.Options(task=task)
    given = read_prompts(prompts)
    chosen = [as_chat(prompt) if chat else prompt for prompt in given]
    loaded = load(model, dtype=dtype, weights=weights, device=device, cache=cache, offline=offline)
    tune_now(loaded, chosen, task, tokens, as_json)
