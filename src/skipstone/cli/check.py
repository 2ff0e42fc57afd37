"""skipstone check"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from . import options as o
from .loading import load

if TYPE_CHECKING:
    from ..bench.check import CheckReport, Reference


def check(
    model: Annotated[str, typer.Argument(help="A short name, a folder, a GGUF file or a hub id.")] = "smollm2-135m",
    drafter: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="As for generate; may be given several times. [default: ngram]"),
    ] = None,
    prompts: Annotated[
        str | None, typer.Option(metavar="FILE", help="One a line, as text or JSON; -: standard input.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Take the first N prompts only.")] = None,
    max_new_tokens: o.MaxNewTokens = 128,
    chat: Annotated[bool, typer.Option("--chat/--raw", help="Whether a text is a user's message.")] = False,
    against: Annotated[
        str,
        typer.Option(metavar="plain|transformers", help="Our plain decoding, or transformers' own generate."),
    ] = "plain",
    dtype: o.Dtype = "auto",
    weights: o.Weights = "auto",
    exact: o.Exact = False,
    device: o.Device = "auto",
    cache: o.Cache = None,
    offline: o.Offline = False,
    temperature: o.Temperature = None,
    seed: o.Seed = None,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Compare drafted decoding with plain decoding, token by token; exit code 1 unless they are equal."""
    from ..bench.check import CheckSpec, References, run_check
    from ..bench.demo import demo_prompts
    from ..errors import UsageError
    from ..plugins import read_spec
    from ..text.prompt import as_chat
    from ..text.prompts_file import read_prompts
    from ..text.settings import GenerationSettings

    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit} leaves no prompt: use 1 or more")
    settings = GenerationSettings(max_new_tokens=max_new_tokens, temperature=temperature or 0.0, seed=seed)
    specs = [CheckSpec(each, cast("Reference", against), settings) for each in drafter or ["ngram"]]
    for spec in specs:
        read_spec(spec.drafter)
    given = read_prompts(prompts) if prompts is not None else [prompt.text for prompt in demo_prompts()]
    chosen = [as_chat(prompt) if chat else prompt for prompt in given[:limit]]
    loaded = load(model, dtype=dtype, weights=weights, exact=exact, device=device, cache=cache, offline=offline)
    references = References(loaded, specs[0].against)
    reports = []
    for spec in specs:
        reports.append(run_check(loaded, chosen, spec, _progress, references))
        print(json.dumps(reports[-1].to_json()) if as_json else _text(reports[-1]), flush=True)
    if not all(report.equal for report in reports):
        raise typer.Exit(1)


def _progress(report: CheckReport) -> None:
    found = f"{len(report.differences)} differences, {len(report.near_ties)} near-ties"
    print(f"{report.sequences} texts, {report.tokens} tokens: {found}", file=sys.stderr, flush=True)


def _text(report: CheckReport) -> str:
    """The verdict, and a line for every place where the two part."""
    places = [
        f"text {d.sequence + 1}, token {d.position + 1}: {d.expected_text!r} became {d.got_text!r}, "
        f"scores {d.gap:.1e} apart, error {d.error:.1e}: {'a near-tie' if d.near_tie else 'a difference'}"
        for d in [*report.differences, *report.near_ties]
    ]
    verdict = _verdict(report)
    about = f"{report.model} ({report.dtype}, {report.weights} weights), {report.drafter} against {report.against}"
    counts = f"{report.tokens} tokens in {report.sequences} texts, {report.drafted} drafted"
    return "\n".join([*places, f"{verdict}: {about}, {counts}{_doubt(report)}"])


def _doubt(report: CheckReport) -> str:
    """What keeps a verdict from saying much, if anything does."""
    if not report.drafted and report.drafter != "none":
        return " (plain decoding against itself: say what to draft, as exit:layer=8,depth=2 or skip:plan=uniform)"
    counted = report.tokens if report.drafter == "none" else report.drafted
    return " (so few say little: give more or longer texts)" if counted < _FEW else ""


def _verdict(report: CheckReport) -> str:
    if report.differences:
        return "NOT equal"
    if not report.near_ties:
        return "equal"
    told = f"{_count(len(report.near_ties))}, of which {report.near_ties_allowed} are allowed in {report.tokens} tokens"
    return f"equal but for {told}" if report.equal else f"NOT equal: {told}"


def _count(near_ties: int) -> str:
    return "1 near-tie" if near_ties == 1 else f"{near_ties} near-ties"


_FEW = 100
