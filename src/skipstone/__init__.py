"""Skipstone: large language models that generate faster with their own layers, token for token the same text.

import skipstone
model = skipstone.load("smollm2-135m", drafter="ngram")
print(model.generate("Once upon a time", max_new_tokens=64).text)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import SkipstoneError

if TYPE_CHECKING:
    from .drafting import Drafter
    from .text.language_model import LanguageModel

__version__ = "0.1.0"

__all__ = ["SkipstoneError", "__version__", "load"]


def load(
    model: str | Path = "smollm2-135m",
    *,
    drafter: str | Drafter = "none",
    dtype: str = "auto",
    device: str = "auto",
    cache: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> LanguageModel:
    """Load a model for generation: an alias, a Hugging Face folder, a GGUF file or a hub id.

    ``drafter`` is a name with options ("ngram", "exit:layer=8,depth=6", …); "none" is plain decoding. ``dtype`` is
    auto, float64, float32, bfloat16 or float16. ``progress`` is told what takes long (by default on stderr).
    Raises ModelError, StoreError and UsageError (see skipstone.errors).
    """
    from .hf.load import load_folder  # transformers takes seconds to import: only when a model is wanted
    from .plugins import read_spec
    from .text.language_model import LanguageModel
    from .text.locate import locate
    from .text.progress import to_stderr

    if isinstance(drafter, str):
        read_spec(drafter)  # a slip of the pen is told before anything is fetched or loaded
    folder = locate(model, cache=cache, progress=progress or to_stderr)
    return LanguageModel(load_folder(folder, name=str(model), dtype=dtype, device=device), drafter)
