"""skipstone demo"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options as o
from .loading import DISTURBED, load

if TYPE_CHECKING:
    from rich.table import Table

    from ..bench.demo import Arm, DemoPrompt
    from ..text.language_model import LanguageModel

_QUESTION = "Why does the sea taste of salt? Answer in two sentences."


def demo(
    model: Annotated[str, typer.Argument(help="A short name, a folder, a GGUF file or a hub id.")] = "smollm2-135m",
    layerskip: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="A checkpoint trained for early exits; unless given the one of this repository."
        ),
    ] = None,
    cache: o.Cache = None,
    offline: o.Offline = False,
    debug: o.Debug = False,
) -> None:
    """Stream an answer, then decode a few prompts in every way and compare speed and text.

    A checkpoint trained for early exits drafts for itself, beside plain decoding of the same weights.
    """
    from ..bench.demo import demo_drafters, demo_prompts
    from ..text.locate import DEFAULT_MODEL

    loaded = load(model, cache=cache, offline=offline)
    _stream(loaded)
    tables = [_compared(loaded, demo_drafters(loaded.network.num_layers), demo_prompts())]
    if layerskip or model == DEFAULT_MODEL:
        del loaded  # two models at once are more than some machines hold
        tables += _trained(layerskip, cache, offline)
    _show(tables)


def _trained(layerskip: str | None, cache: Path | None, offline: bool) -> list[Table]:
    """The table of a trained checkpoint; none, and why, where it cannot be had."""
    from ..bench.demo import trained_prompts
    from ..bench.layerskip.checkpoint import OURS, checkpoint_of
    from ..errors import SkipstoneError
    from ..text.locate import Finder

    try:
        found = checkpoint_of(layerskip or str(OURS), Finder(_tell, cache, offline))
        model = load(found.name, cache=cache, offline=offline)
    except SkipstoneError as error:
        if layerskip:
            raise
        _tell(f"left out: the model trained for early exits ({error})")
        return []
    layer = found.exits[0] if found.exits else max(model.network.num_layers // 4, 1)
    fixed = [f"exit:layer={layer},depth={depth}" for depth in (1, 2)]
    return [_compared(model, [*fixed, "exit"], trained_prompts())]


def _compared(model: LanguageModel, drafters: list[str], prompts: list[DemoPrompt]) -> Table:
    from ..bench.demo import run_demo, too_fast

    table = _table(model)
    for number, arms in enumerate(run_demo(model, drafters, prompts), 1):
        _tell(f"compared {number} of {len(prompts)} prompts ({arms[0].kind})")
        if any(too_fast(arm, arms[1]) for arm in arms[1:]):
            _tell(f"a speed-up above M is no speed-up: {DISTURBED}")
        _add(table, arms)
    return table


def _stream(model: LanguageModel) -> None:
    print(f"> {_QUESTION}", flush=True)
    prompt = [{"role": "user", "content": _QUESTION}] if model.tokenizer.has_chat else _QUESTION
    for piece in model.stream(prompt, max_new_tokens=60, drafter="ngram", do_sample=False):
        print(piece.text, end="", flush=True)
    print("\n")


def _table(model: LanguageModel) -> Table:
    from rich.table import Table

    network = model.loaded.network
    weights = "" if network.weights == "stock" else f", weights packed as {network.weights}"
    number = str(network.dtype).removeprefix("torch.")
    title = f"{model.name}, {number}{weights} on {network.device}, greedy, batch 1"
    table = Table("prompt", "decoded with", title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("tokens/s", "× plain", "× transformers", "M", "α"):
        table.add_column(heading, justify="right")
    table.add_column("same text")
    return table


def _add(table: Table, arms: list[Arm]) -> None:
    """The arms of one prompt: transformers first, then plain decoding, then the drafters."""
    theirs, plain = arms[0].tokens_per_second, arms[1].tokens_per_second
    for arm in arms:
        speed, summary = arm.tokens_per_second, arm.summary
        drafted = summary is not None and summary.drafted > 0
        table.add_row(
            arm.kind if arm is arms[0] else "",
            "none (plain decoding)" if arm.name == "none" else arm.name,
            f"{speed:.1f}",
            f"{speed / plain:.2f}",
            f"{speed / theirs:.2f}",
            f"{summary.mean_accepted_length:.2f}" if summary else "",
            f"{summary.acceptance_rate:.2f}" if summary and drafted else "",
            arm.equal,
        )
    table.add_section()


def _show(tables: list[Table]) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120)
    for table in tables:
        console.print(table)
    print(
        "\nM: tokens per verification. α: drafted tokens accepted. Slower rows are shown as they are: "
        "which drafter pays depends on model, text and machine."
    )


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
