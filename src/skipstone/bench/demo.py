"""A few prompts, every way to decode them, one table: what is faster here, and whether the text is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from ..request import Request
from ..telemetry import Summary
from ..text.language_model import LanguageModel
from ..text.settings import GenerationSettings
from .check import CheckReport, Comparison, References, first_difference
from .transformers_baseline import transformers_generate

TRANSFORMERS = "transformers generate"
_ROUGHLY = 1.2  # of a single run


@dataclass(frozen=True)
class DemoPrompt:
    kind: str
    text: str
    max_new_tokens: int = 48
    chat: bool = True


@dataclass(frozen=True)
class Arm:
    """One way to decode one prompt. ``equal`` to plain decoding: "yes", "near-tie" or "NO"."""

    kind: str
    name: str
    tokens: list[int]
    seconds: float
    equal: str
    summary: Summary | None = None

    @property
    def tokens_per_second(self) -> float:
        return len(self.tokens) / self.seconds


def too_fast(drafted: Arm, plain: Arm) -> bool:
    """Faster than its tokens per verification allow: then one of the two was kept waiting by something else."""
    most = 1.0 if drafted.summary is None else max(drafted.summary.mean_accepted_length, 1.0)
    return drafted.tokens_per_second / plain.tokens_per_second > _ROUGHLY * most


def demo_prompts() -> list[DemoPrompt]:
    article = (
        "The harbour of Lindvik froze over in the first week of January, for the first time in thirty years. Fishing "
        "boats stayed in port, and the ferry to the islands was replaced by a bus across the ice, which the coast "
        "guard checked every morning. Children skated to school. On the twentieth the wind turned, the ice broke "
        "within an hour, and the ferry sailed again that evening."
    )
    record = "def area_of_square(side):\n    return side * side\n\n\ndef area_of_rectangle(width, height):\n    return"
    names = "Anna Berg, Bo Lund, Carl Dahl, Dora Ek, Emil Fors, Frida Gran, Gustav Holm, Hanna Ivarsson"
    return [
        DemoPrompt("chat", "Why does bread rise? Answer in two sentences."),
        DemoPrompt("summary", f"Summarise this in one sentence.\n\n{article}"),
        DemoPrompt("code", f"Complete this Python module.\n\n{record}"),
        DemoPrompt("copy", f"Repeat this list exactly, word for word, and nothing else: {names}"),
    ]


def trained_prompts() -> list[DemoPrompt]:
    """Of the kinds that our checkpoint was trained on: sums told as stories, and stories."""
    sums = (
        "Mia bakes 24 rolls on Monday and half as many on Tuesday. She sells them all for $2 each. How many dollars "
        "does she make?"
    )
    return [
        DemoPrompt("maths", sums, 64),
        DemoPrompt("story", "Once upon a time, there was a little fox who lived near a frozen lake.", 64, chat=False),
    ]


def demo_drafters(num_layers: int) -> list[str]:
    """One setting of each built-in drafter, as a first user would write it."""
    middle = num_layers // 2
    return [
        "ngram",
        f"skip:attn={middle},depth=3",
        f"exit:layer={middle},depth=2",
    ]


def run_demo(model: LanguageModel, drafters: list[str], prompts: list[DemoPrompt]) -> Iterator[list[Arm]]:
    """The arms of one prompt after another. Each arm decodes greedily; a short run before warms everything up."""
    _decode(model, _request(model, DemoPrompt("warm up", "Hi", 2)), "none")
    theirs = References(model, "transformers")
    for prompt in prompts:
        yield _arms(theirs, prompt.kind, _request(model, prompt), drafters)


def _request(model: LanguageModel, prompt: DemoPrompt) -> Request:
    settings = GenerationSettings(max_new_tokens=prompt.max_new_tokens, seed=0, do_sample=False)
    chat = [{"role": "user", "content": prompt.text}]
    return model.request(chat if prompt.chat and model.tokenizer.has_chat else prompt.text, settings)


def _arms(references: References, kind: str, request: Request, drafters: list[str]) -> list[Arm]:
    model = references.model
    theirs = transformers_generate(references.theirs, request)
    ours = [(spec, *_decode(model, request, spec)) for spec in ["none", *drafters]]
    plain = ours[0][1]
    equal = _equal(references, request, (plain, theirs.tokens), "none")
    arms = [Arm(kind, TRANSFORMERS, theirs.tokens, theirs.seconds, equal)]
    own = References(model, "plain")
    for spec, tokens, seconds, summary in ours:
        arms.append(Arm(kind, spec, tokens, seconds, _equal(own, request, (plain, tokens), spec), summary))
    return arms


def _decode(model: LanguageModel, request: Request, drafter: str) -> tuple[list[int], float, Summary]:
    """Output tokens, seconds from prompt to last token, and the figures of the run."""
    summary = Summary()
    capacity = len(request.prompt) + request.max_new_tokens + 64
    engine = model.engine(capacity=capacity, drafter=model.make(drafter))
    engine.sinks.append(summary)
    began = perf_counter()
    engine.admit(request)
    tokens: list[int] = []
    while engine.busy:
        for emission in engine.step():
            if emission.error is not None:
                raise emission.error
            tokens.extend(emission.tokens)
    return tokens, perf_counter() - began, summary


def _equal(references: References, request: Request, texts: tuple[list[int], list[int]], drafter: str) -> str:
    """A difference between two texts is judged as ``skipstone check`` would judge it."""
    if first_difference(*texts) is None:
        return "yes"
    model = references.model
    comparison = Comparison(model, model.make(drafter), references)
    report = CheckReport(model.name, drafter, references.against, "", model.loaded.network.weights)
    comparison.add(report, 0, request)
    return "near-tie" if report.equal else "NO"
