"""What ``skipstone generate`` was asked for, checked and carried out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .answers import figures, show_json, show_text, title
from .loading import load

if TYPE_CHECKING:
    from ..text.language_model import LanguageModel
    from ..text.prompt import Prompt


@dataclass(frozen=True)
class Job:
    """``where`` are skipstone.load's arguments, ``settings`` those of GenerationSettings."""

    model: str
    drafter: str
    where: dict[str, Any]
    settings: dict[str, Any]
    rows: int
    prompt: str | None
    prompts: str | None
    chat: bool
    system: str | None
    as_json: bool

    def run(self) -> None:
        self.check()
        prompts = self.read()
        model = self.load()
        if prompts is None:
            from .conversation import converse

            converse(model, self.system, self.settings)
        else:
            self.answer(model, prompts)

    def check(self) -> None:
        """Raise UsageError for what contradicts itself, RequestError for numbers that no model could serve."""
        if self.prompt is not None and self.prompts is not None:
            raise UsageError("a prompt and --prompts are two different inputs: give one of them")
        if self.system is not None and not self.chat:
            raise UsageError("--system is for chats: add --chat")
        if self.settings["logprobs"] is not None and not self.as_json:
            raise UsageError("--logprobs shows in JSON only: add --json")
        if self.rows < 1:
            raise UsageError(f"--rows {self.rows} generates nothing: use 1 or more")
        if self.converses and (self.as_json or self.settings["num_return_sequences"] != 1):
            raise UsageError("a conversation prints one answer at a time, as text: give a prompt, or leave --json out")
        from ..text.settings import GenerationSettings

        GenerationSettings.of(**self.settings)

    @property
    def converses(self) -> bool:
        return self.chat and self.prompt is None and self.prompts is None and _terminal()

    def read(self) -> list[Prompt] | None:
        """The prompts; None for a conversation. Raises UsageError where there are none."""
        from ..text.prompt import as_chat

        if self.converses:
            return None
        prompts = self.given()
        return [as_chat(prompt, self.system) for prompt in prompts] if self.chat else prompts

    def given(self) -> list[Prompt]:
        from ..text.prompts_file import read_prompts, read_text

        if self.prompts is not None:
            return read_prompts(self.prompts)
        if self.prompt is not None and self.prompt != "-":
            return [self.prompt]
        if self.prompt is None and _terminal():
            raise UsageError("no prompt: give one as an argument or in a --prompts FILE, or converse with --chat")
        text = read_text("-").removesuffix("\n").removesuffix("\r")
        if not text:
            raise UsageError("no prompt: standard input is empty, and there is no argument or --prompts FILE")
        return [text]

    def load(self) -> LanguageModel:
        return load(self.model, drafter=self.drafter, **self.where)

    def answer(self, model: LanguageModel, prompts: list[Prompt]) -> None:
        samples = self.settings["num_return_sequences"]

        def heading(index: int) -> str:
            return f"== {index + 1}/{len(prompts) * samples}: {title(prompts[index // samples])}"

        pieces = model.stream_batch(prompts, rows=self.rows, **self.settings)
        if self.as_json:
            show_json(pieces, {"model": self.model, "drafter": self.drafter}, model.told)
            return
        done = show_text(pieces, None if len(prompts) == 1 and self.prompts is None and samples == 1 else heading)
        for line in [figures(done), *model.told()]:
            print(line, file=sys.stderr, flush=True)


def _terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()
