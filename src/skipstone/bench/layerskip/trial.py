"""What every part judges: a checkpoint and the model it started from, by which texts, and how much of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...text.language_model import LanguageModel, Prompt
from ...text.settings import GenerationSettings
from ..efficiency.decoding import Job
from ..efficiency.lab import Lab
from ..efficiency.models import RealModels
from .checkpoint import Checkpoint
from .setting import Setting, calibrated
from .sources import Sources, first_sentences


@dataclass(frozen=True)
class Extent:
    """How much is judged: rows of each held-out text, prompts of each kind, new tokens of each prompt."""

    rows: int = 24  # for the last layer and the exits that were trained
    few_rows: int = 6  # of these, for all exits
    length: int = 512
    exits: tuple[int, ...] = (2, 4, 6, 8, 10, 12, 16, 20, 24, 28)  # evaluated, beside those trained and the last
    prompts: int = 6
    stream_prompts: int = 10  # of each kind, where a drafter that chooses by itself has a whole stream of them
    new_tokens: int = 96
    rival_prompts: int = 2
    trial_prompts: int = 1  # of each kind, to find a setting by, and none of those it is measured with
    trial_tokens: int = 48
    shapes: tuple[tuple[int, int], ...] = ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1), (3, 2))  # depth, width
    latest: int = 8  # exit tried where the checkpoint names none
    heads: tuple[str, ...] = ("auto", "4096")
    # that a drafter which chooses by itself is compared with
    fixed: tuple[tuple[int, int], ...] = ((1, 1), (1, 2), (2, 1), (2, 2), (3, 2))

    @classmethod
    def quick(cls) -> Extent:
        """Seconds in all; the figures mean nothing."""
        return cls(
            rows=1,
            few_rows=1,
            length=32,
            prompts=1,
            stream_prompts=1,
            new_tokens=12,
            rival_prompts=1,
            trial_tokens=8,
            shapes=((1, 1), (2, 2)),
            heads=("auto", "64"),
            fixed=((1, 1),),
        )


@dataclass(frozen=True)
class Trial:
    """``models`` are the checkpoint in every way."""

    checkpoint: Checkpoint
    models: RealModels
    sources: Sources
    extent: Extent = field(default_factory=Extent)

    def jobs(self, model: LanguageModel) -> dict[str, list[Job]]:
        """By kind of text: prompts held out of training, in the form it had them, ended as users have them end."""
        return self._jobs(model, self.extent.prompts)

    def stream(self, model: LanguageModel) -> list[tuple[str, Job]]:
        """Prompts of all kinds by turns, chats among them, each with its kind."""
        extent = self.extent
        chats = self.sources.held_out_chats()[: extent.stream_prompts]
        asked: list[Prompt] = [[{"role": "user", "content": chat}] for chat in chats]
        by_kind = {
            **self._jobs(model, extent.stream_prompts),
            "chat": [_job(model, prompt, extent.new_tokens) for prompt in asked],
        }
        return by_turns(by_kind)

    def _jobs(self, model: LanguageModel, prompts: int) -> dict[str, list[Job]]:
        """``prompts`` of each kind, none of those that a setting is found by."""
        extent = self.extent
        return {
            kind: [_job(model, prompt, extent.new_tokens) for prompt in asked[extent.trial_prompts :][:prompts]]
            for kind, asked in self._prompts.items()
        }

    def setting(self, lab: Lab, weights: str = "auto", exit_layer: int | None = None) -> Setting:
        """The fastest exit, depth and width with these weights, looked for once; ``exit_layer``: at that exit."""
        key = (weights, exit_layer)
        if key not in self._settings:
            model, extent = self.models.language_model(weights), self.extent
            prompts = [one for each in self._prompts.values() for one in each[: extent.trial_prompts]]
            jobs = [_job(model, prompt, extent.trial_tokens) for prompt in prompts]
            candidates = self._candidates(model.network.num_layers) if exit_layer is None else [exit_layer]
            self._settings[key] = calibrated(model, candidates, extent.shapes, jobs, lab)
        return self._settings[key]

    def exits(self, layers: int) -> list[int]:
        """To evaluate, in a model of so many layers, without the last."""
        return sorted(each for each in {*self.extent.exits, *self.checkpoint.exits} if each < layers)

    def _candidates(self, layers: int) -> list[int]:
        """To decode with."""
        if self.checkpoint.exits:
            return list(self.checkpoint.exits)
        return [each for each in self.extent.exits if each <= self.extent.latest and each < layers]

    @cached_property
    def _prompts(self) -> dict[str, list[Prompt]]:
        wanted = max(self.extent.prompts, self.extent.stream_prompts) + self.extent.trial_prompts
        asked: list[Prompt] = [
            [{"role": "user", "content": row["question"]}] for row in self.sources.held_out_questions()[:wanted]
        ]
        told: list[Prompt] = list(first_sentences(self.sources.held_out_stories()[:wanted]))
        return {"maths": asked, "stories": told}

    @cached_property
    def _settings(self) -> dict[tuple[str, int | None], Setting]:
        return {}


def by_turns(jobs: Mapping[str, Sequence[Job]]) -> list[tuple[str, Job]]:
    """A job of each kind, then the next of each: a measurement that runs out of time has seen all kinds."""
    turns = zip(*([(kind, job) for job in some] for kind, some in jobs.items()), strict=False)
    return [one for turn in turns for one in turn]


def _job(model: LanguageModel, prompt: Prompt, new_tokens: int) -> Job:
    """A question without a chat template is plain text; a tiny model has no room for long ones."""
    settings = GenerationSettings(max_new_tokens=new_tokens, do_sample=False, seed=0)
    if not isinstance(prompt, str) and not model.tokenizer.has_chat:
        prompt = "\n".join(_contents(prompt))
    tokens = model.encode(prompt)[: model.network.context // 2]
    request = model.request(tokens, settings)
    return Job(request.prompt, new_tokens, request.sampling, request.stops)


def _contents(messages: Sequence[object]) -> list[str]:
    return [str(each["content"]) for each in messages if isinstance(each, dict)]
