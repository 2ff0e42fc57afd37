"""The README.md that goes with what was trained: what it is, what it paid, and how to decode with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import Trained


USEFUL = 0.3  # agreement below which no exit has paid


def useful(trained: Trained) -> bool:
    """Whether an exit is right often enough that it may pay to draft with it."""
    return any(trained.after.at(each).agreement >= USEFUL for each in trained.exits)


def card(trained: Trained, base: str) -> str:
    """``base`` names the model that training began with."""
    exits = ", ".join(map(str, trained.exits))
    drafts = ["so that it generates faster and writes the same:"]
    if not useful(trained):
        drafts = ["and what it writes stays the same. They are right too seldom for that to be faster: train longer."]
    lines = [
        f"# {base}, trained to draft with its own early layers",
        "",
        f"Made with `skipstone train`. Its first layers (exits: {exits}), the final norm and the head",
        "draft tokens that the whole model verifies,",
        *drafts,
        "",
        "```sh",
        'skipstone generate "Once upon a time" --model THIS_FOLDER --drafter exit',
        "```",
        "",
        f"Measured on {trained.after.tokens:,} held-out tokens, before and after training:",
        "",
        "| exit | choices that are the last layer's | loss |",
        "|---|---|---|",
        *_rows(trained),
        "",
        f"The last layer chooses as before for {trained.after.same_choices(trained.before):.1%} of the tokens. All",
        "settings and figures are in `training.json`.",
    ]
    return "\n".join(lines) + "\n"


def _rows(trained: Trained) -> list[str]:
    wanted = {*trained.exits, trained.after.exits[-1].exit}
    pairs = zip(trained.before.exits, trained.after.exits, strict=True)
    return [
        f"| {after.exit} | {before.agreement:.1%} → {after.agreement:.1%} | {before.loss:.3f} → {after.loss:.3f} |"
        for before, after in pairs
        if after.exit in wanted
    ]
