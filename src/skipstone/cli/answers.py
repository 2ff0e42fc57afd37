"""Generated texts on standard output, and the figures beside them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..text.generation import Generation, Piece
    from ..text.prompt import Prompt


def show_json(pieces: Iterable[Piece], about: dict[str, Any], told: Callable[[], list[str]] = list) -> None:
    """One JSON object a text, in order, each as soon as it is there; ``about`` goes into all of them.

    ``told``: what drafters have to say by then, a line each.
    """
    from ..text.in_order import in_order

    for piece in in_order(pieces):
        if piece.generation is not None:
            answer = {**about, "index": piece.index, **piece.generation.to_json(), "told": told()}
            print(json.dumps(answer), flush=True)


def show_text(pieces: Iterable[Piece], heading: Callable[[int], str] | None = None) -> list[Generation]:
    """The texts as they grow, each under its heading where there is one. However it ends, it ends with its line."""
    from ..text.in_order import in_order

    done: list[Generation] = []
    page = Page()
    try:
        for piece in in_order(pieces):
            if heading is not None and page.index != piece.index:
                page.begin(piece.index, heading(piece.index))
            page.write(piece.text)
            if piece.generation is not None:
                done.append(piece.generation)
                page.end()
    finally:
        page.end()
    return done


class Page:
    """Standard output: which text is on it, and whether its line is still open."""

    def __init__(self) -> None:
        self.index = -1
        self._open = False

    def begin(self, index: int, heading: str) -> None:
        self.index = index
        print(heading, flush=True)

    def write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._open = not text.endswith("\n") if text else self._open

    def end(self) -> None:
        if self._open:
            print(flush=True)
        self._open = False


def title(prompt: Prompt) -> str:
    """A prompt in a few words, on one line."""
    last = prompt[-1] if not isinstance(prompt, str) and len(prompt) else prompt
    text = " ".join(str(last.get("content", "") if isinstance(last, dict) else last).split())
    return text if len(text) <= _TITLE else f"{text[: _TITLE - 1]}…"


_TITLE = 72


def figures(done: Sequence[Generation]) -> str:
    """One line: tokens, speed, mean accepted length, acceptance rate, how the texts ended, whether they are lossy."""
    from ..telemetry import Summary

    total = Summary()
    for generation in done:
        total.merge(generation.summary)
    seconds = max((g.seconds for g in done), default=0.0) if len(done) == 1 else total.timing.total_s
    speed = total.emitted / seconds if seconds else 0.0
    accepted = f"α {total.acceptance_rate:.2f}" if total.drafted else "nothing drafted"
    ends = Counter(str(g.stop_reason or g.finish_reason) for g in done)
    how = ", ".join(end if count == len(done) else f"{count} × {end}" for end, count in ends.most_common())
    loss = f"; lossy: {total.lossy}" if total.lossy else ""
    rates = f"{speed:.1f} tokens/s, M {total.mean_accepted_length:.2f}, {accepted}"
    return f"[{total.emitted} tokens, {rates}, ended: {how}{loss}]"
