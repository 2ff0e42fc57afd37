"""An installed model, loaded as each part wants it and kept for the next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...network import Network
from ...text.language_model import LanguageModel
from ..demo import demo_prompts


class RealModels:
    """Implements ``Models`` for anything that ``skipstone.load`` takes."""

    def __init__(self, name: str, cache: Path | None = None, offline: bool = False) -> None:
        self.name = name
        self.where: dict[str, Any] = {"model": name, "cache": str(cache) if cache else None, "offline": offline}
        self._cache, self._offline = cache, offline
        self._loaded: dict[str, LanguageModel] = {}

    def ours(self, weights: str) -> Network:
        return self.language_model(weights).network

    def theirs(self) -> Any:
        return self._theirs

    def fresh(self) -> Any:
        build = self.language_model("auto").loaded.build
        if build is None:
            raise UsageError(f"{self.name} came from no folder: it cannot be loaded twice")
        return build()

    def prompts(self) -> Sequence[Sequence[int]]:
        model = self.language_model("auto")
        texts = [prompt.text for prompt in demo_prompts()]
        most = model.network.context // 2  # a tiny model has no room for all of it
        return [model.encode(text)[:most] for text in (texts[2], texts[1], "\n\n".join(texts))]

    def encode(self, text: str) -> list[int]:
        return self.language_model("auto").encode(text)

    @cached_property
    def _theirs(self) -> Any:
        return self.fresh()

    def another(self, name: str) -> RealModels:
        """Of another name, looked for in the same places."""
        return RealModels(name, self._cache, self._offline)

    def forget(self, weights: str) -> None:
        """A model that no part wants again need not stay in memory."""
        self._loaded.pop(weights, None)

    def language_model(self, weights: str) -> LanguageModel:
        """With its tokenizer; the same object each time."""
        import skipstone

        if weights not in self._loaded:
            self._loaded[weights] = skipstone.load(
                self.name, dtype="float32", device="cpu", weights=weights, cache=self._cache, offline=self._offline
            )
        return self._loaded[weights]
