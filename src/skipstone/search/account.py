"""What a search came to so far, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sublayer import searchable, skipped_by, told_parts

if TYPE_CHECKING:
    from .in_use import InUse
    from .pricing import Pricing
    from .tuner import Tuner


def told(tuner: Tuner) -> str:
    """What is drafted with, or why nothing is."""
    if tuner.network_layers < 3:
        return f"not drafting: a model of {tuner.network_layers} layers has none between its first and last to skip"
    if tuner.use is not None:
        return _in_use(tuner.use, tuner.priced_out)
    if tuner.best is not None:
        return _tried(tuner)
    if tuner.drops:
        return "not drafting: the plan drafted with stopped paying, and no other was tried since"
    if not tuner.tokens:
        return "not drafting: nothing was generated yet"
    return f"not drafting: no text so far was long enough to try anything on ({tuner.options.window} tokens)"


def _in_use(use: InUse, priced_out: Pricing | None) -> str:
    plan = f"without {told_parts(use.plan)}"
    if priced_out is None:
        return f"drafting {plan}, {use.recent.share:.0%} accepted"
    rows = f"with {priced_out.rows} rows, " if priced_out.rows > 1 else ""
    context = f"{priced_out.context} token{'s' * (priced_out.context != 1)}"
    return f"not drafting: {rows}at a context of {context}, a draft {plan} does not pay"


def _tried(tuner: Tuner) -> str:
    assert tuner.best is not None
    left_out, of = len(skipped_by(tuner.best.plan)), len(searchable(tuner.network_layers))
    worth = f"{left_out} of {of} sublayers, {tuner.best.speed:.2f} times plain decoding"
    said = f"not drafting: the best of {tuner.trials} plans tried leaves out {worth}"
    if not (tuner.trust.broken and tuner.best.speed > 1):
        return said
    return f"{said} by its trial, which is not enough: {len(tuner.trust.broken)} before it fell short of theirs"
