"""Real checkpoints: what a random tiny model cannot show."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from time import perf_counter

import pytest
import torch

import skipstone
from skipstone.bench.check import CheckSpec, run_check
from skipstone.bench.efficiency.decoding import Job, decode
from skipstone.bench.planted import grown_model
from skipstone.hf.prepare import prepare
from skipstone.store import find_installed
from skipstone.text.language_model import LanguageModel
from skipstone.text.settings import GenerationSettings

STORIES = Path(__file__).parents[2].parent / "shared" / "models" / "stories260k"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
DRAFTERS = ["ngram", "skip:attn=15,depth=3,width=2", "skip:plan=uniform,depth=2", "exit:layer=20,depth=3,width=2"]


@lru_cache(maxsize=1)
def smollm2() -> LanguageModel:
    folder = find_installed("smollm2-135m")
    if folder is None:
        pytest.skip("the real model is not installed: run `skipstone pull smollm2-135m`")
    return skipstone.load(folder, dtype="float32")


@lru_cache(maxsize=1)
def stories() -> LanguageModel:
    if not STORIES.is_dir():
        pytest.skip(f"{STORIES} is not there: this test needs the small story model")
    return skipstone.load(STORIES, dtype="float32")


def check(model: LanguageModel, spec: CheckSpec) -> None:
    report = run_check(model, [QUESTION, "def fibonacci(n):"], spec, lambda report: None)
    assert report.equal, report.to_json()


@pytest.mark.real_model
def test_the_real_model_answers_in_chat() -> None:
    answer = smollm2().generate(QUESTION, max_new_tokens=12)
    assert "Paris" in answer.text
    assert answer.finish_reason == "stop"


@pytest.mark.real_model
def test_the_real_model_decodes_as_in_transformers() -> None:
    check(smollm2(), CheckSpec("none", "transformers", GenerationSettings(max_new_tokens=12)))


@pytest.mark.real_model
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_drafters_change_nothing_on_the_real_model(drafter: str) -> None:
    check(smollm2(), CheckSpec(drafter, settings=GenerationSettings(max_new_tokens=12)))


@pytest.mark.real_model
def test_drafters_change_nothing_when_the_real_model_samples() -> None:
    settings = GenerationSettings(max_new_tokens=12, temperature=0.8, top_p=0.95, repetition_penalty=1.1, seed=3)
    check(smollm2(), CheckSpec("exit:layer=20,depth=2", settings=settings))


@pytest.mark.parametrize("drafter", ["ngram", "skip:attn=1+3,mlp=2,depth=3", "exit:layer=4,depth=3,width=2"])
def test_drafters_change_nothing_in_a_story(drafter: str) -> None:
    settings = GenerationSettings(max_new_tokens=150, temperature=0.7, seed=11)
    report = run_check(stories(), ["Once upon a time"], CheckSpec(drafter, settings=settings), lambda report: None)
    assert report.equal, report.to_json()


def test_early_layers_of_a_trained_model_draft_better_than_chance() -> None:
    story = stories().generate("Once upon a time", max_new_tokens=100, drafter="exit:layer=4,depth=1")
    assert story.acceptance_rate > 0.3
    assert story.mean_accepted_length > 1.3


@pytest.mark.real_model
def test_the_real_model_grown_by_idle_layers_says_the_same_and_its_best_plan_is_always_right() -> None:
    build = smollm2().loaded.build
    assert build is not None
    base = build()
    prompt = torch.tensor([smollm2().encode(QUESTION)])
    with torch.inference_mode():
        before = base(prompt).logits
        grown = grown_model(base, 10, seed=1)
        assert torch.equal(grown.model(prompt).logits, before)
    network = prepare(grown.model).network
    drafted = decode(network, grown.spec(4), Job(prompt[0].tolist(), 15), perf_counter)
    assert drafted.tokens == decode(network, "none", Job(prompt[0].tolist(), 15), perf_counter).tokens
    assert drafted.summary.acceptance_rate == 1
