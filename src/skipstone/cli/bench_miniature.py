"""skipstone bench miniature"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from . import options as o

if TYPE_CHECKING:
    from ..bench.miniature import Miniature


def miniature(
    data: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Texts: JSONL with text (.gz too), or a text file.")
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Where miniature.json and miniature.svg are written.")
    ] = Path("miniature"),
    steps: Annotated[int | None, typer.Option(metavar="N", help="Of each of the two trainings.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Just see that it runs; the figures mean nothing.")] = False,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """The recipe in miniature: a tiny model trained from scratch on the same texts with the recipe and without it.

    To look for: middle exits that agree more, and what the last layer paid for it.
    """
    from ..bench.miniature import Small, run_miniature
    from ..errors import UsageError
    from ..store.atomic import disk_errors
    from ..text.progress import to_stderr
    from .loading import interruptible

    if not data:
        raise UsageError("--data is missing: give texts to train on, such as tinystories_train.jsonl.gz")
    if steps is not None and steps < 2:
        raise UsageError(f"--steps {steps}: give 2 or more")
    size = Small.quick() if quick else Small()
    small = size if steps is None else replace(size, steps=steps)
    with interruptible(), disk_errors(output, option="--output"):
        _check_writable(output)
        found = run_miniature(data, small, to_stderr)
        print(json.dumps(found.to_json()) if as_json else _told(found), flush=True)  # whatever becomes of the files
        found.save(output)
    to_stderr(f"written to {output}")


def _check_writable(output: Path) -> None:
    """Before two trainings, not after."""
    output.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=output):
        pass


def _told(found: Miniature) -> str:
    lines = [f"{'exit':>6} {'loss without':>14} {'with':>8} {'agreement without':>20} {'with':>8}"]
    for without, having in zip(found.without.figures.exits, found.with_recipe.figures.exits, strict=True):
        lines.append(
            f"{without.exit:>6} {without.loss:>14.3f} {having.loss:>8.3f} {without.agreement:>20.1%} "
            f"{having.agreement:>8.1%}"
        )
    return "\n".join(lines)
