"""skipstone generate"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from . import options as o
from .job import Job

_INPUT, _OUTPUT = "Input", "Output"


def generate(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Text to continue; - or none: read from standard input.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(metavar="MODEL", help="A short name, a folder, a GGUF file or a hub id.", rich_help_panel="Model"),
    ] = "smollm2-135m",
    drafter: o.Drafter = "none",
    dtype: o.Dtype = "auto",
    weights: o.Weights = "auto",
    exact: o.Exact = False,
    early_exit: o.EarlyExit = None,
    device: o.Device = "auto",
    cache: o.Cache = None,
    offline: o.Offline = False,
    chat: Annotated[
        bool,
        typer.Option("--chat", help="The prompt is a message; without one: converse.", rich_help_panel=_INPUT),
    ] = False,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="System message of a chat.", rich_help_panel=_INPUT)
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Many prompts: one a line, as text or JSON.", rich_help_panel=_INPUT),
    ] = None,
    rows: Annotated[int, typer.Option(metavar="N", help="Texts generated at a time.", rich_help_panel=_INPUT)] = 8,
    max_new_tokens: o.MaxNewTokens = 128,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="End before this text. May be given several times.")
    ] = None,
    num_return_sequences: Annotated[int, typer.Option(metavar="N", help="Texts for each prompt.")] = 1,
    temperature: o.Temperature = None,
    top_k: o.TopK = None,
    top_p: o.TopP = None,
    min_p: o.MinP = None,
    repetition_penalty: o.RepetitionPenalty = None,
    presence_penalty: o.PresencePenalty = 0.0,
    frequency_penalty: o.FrequencyPenalty = 0.0,
    seed: o.Seed = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each text.", rich_help_panel=_OUTPUT)
    ] = False,
    logprobs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Log-probabilities, with those of the N best (in JSON).", rich_help_panel=_OUTPUT
        ),
    ] = None,
    debug: o.Debug = False,
) -> None:
    """Generate text. It goes to standard output as it comes; figures of the run go to standard error."""
    settings: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "stop_strings": stop,
        "num_return_sequences": num_return_sequences,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "presence_penalty": presence_penalty,
        "frequency_penalty": frequency_penalty,
        "seed": seed,
        "logprobs": logprobs,
    }
    where: dict[str, Any] = {"dtype": dtype, "weights": weights, "device": device, "cache": cache, "offline": offline}
    where |= {"exact": exact, "early_exit": early_exit}
    Job(model, drafter, where, settings, rows, prompt, prompts, chat, system, as_json).run()
