"""Text, messages and token ids become the tokens the model was trained to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_folder import BOS, save_tokenizer

from skipstone.errors import RequestError
from skipstone.hf.tokenizer import HFTokenizer
from skipstone.store import find_installed
from skipstone.text.language_model import LanguageModel
from skipstone.text.prompt import as_chat

CHAT = [{"role": "user", "content": "the"}]


@pytest.fixture(scope="module")
def with_bos(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder, bos=True)
    return HFTokenizer.load(folder)


@pytest.fixture
def bos_model(model: LanguageModel, with_bos: HFTokenizer, monkeypatch: pytest.MonkeyPatch) -> LanguageModel:
    monkeypatch.setattr(model, "tokenizer", with_bos)
    return model


def test_text_begins_with_bos_once(bos_model: LanguageModel) -> None:
    assert bos_model.encode("the")[0] == BOS
    assert bos_model.encode("the").count(BOS) == 1


def test_a_text_that_brings_its_own_bos_gets_no_second_one(bos_model: LanguageModel) -> None:
    assert bos_model.encode("<|begin|>the") == bos_model.encode("the")


def test_a_chat_has_the_bos_of_its_template_only(bos_model: LanguageModel) -> None:
    tokens = bos_model.encode(CHAT)
    assert (tokens[0], tokens.count(BOS)) == (BOS, 1)


def test_a_chat_is_what_the_template_says_and_ready_for_the_answer(model: LanguageModel) -> None:
    rendered = "<|begin|><|system|>a<|user|>the<|assistant|>"
    assert model.encode([{"role": "system", "content": "a"}, *CHAT]) == model.encode(rendered)


def test_a_tokenizer_without_bos_adds_none(model: LanguageModel) -> None:
    assert BOS not in model.encode("the")


def test_token_ids_stay_as_they_are(model: LanguageModel) -> None:
    assert model.encode([7, 8, 9]) == [7, 8, 9]


def test_a_model_without_a_template_refuses_messages(tmp_path: Path) -> None:
    save_tokenizer(tmp_path, chat=False)
    with pytest.raises(RequestError, match="has no chat template: give a plain prompt"):
        HFTokenizer.load(tmp_path).encode_chat(CHAT)


def test_what_a_template_refuses_is_told_in_its_words(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    template = "{{ raise_exception('only\nusers speak') }}"
    monkeypatch.setattr(model.tokenizer.tokenizer, "chat_template", template)
    with pytest.raises(RequestError, match="template refuses these messages: only users speak"):
        model.encode(CHAT)


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("", "the prompt is empty"),
        ([], "the prompt is empty"),
        ("half \ud83d an emoji", r"lone surrogate \(\\ud83d\) at character 6"),
        ([{"role": "user", "content": "\udcff"}], r"lone surrogate \(\\udcff\) at character 1"),
        (b"bytes", "this is bytes: a prompt is text, a list of messages"),
        ({"role": "user", "content": "hi"}, "this is dict"),
        (["a", "b"], "item 1 is str"),
        ([1, {"role": "user", "content": "hi"}], "item 1 is int"),
        ([{"content": "hi"}], "message 1 has no role"),
        ([1, 2, 10**6], "token id 1000000 is not in the model's vocabulary"),
        ([5] * 256, "the prompt has 256 tokens and the model's context holds 256: shorten the prompt to 255"),
    ],
)
def test_what_is_no_prompt_is_refused(model: LanguageModel, prompt: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        model.generate(prompt)


def test_a_text_becomes_the_users_message_after_the_system_message() -> None:
    assert as_chat("hi", "be kind") == [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
    assert as_chat("hi") == [{"role": "user", "content": "hi"}]


def test_messages_keep_their_own_system_message_and_token_ids_stay() -> None:
    own = [{"role": "system", "content": "be brief"}, *CHAT]
    assert as_chat(own, "be kind") == own
    assert as_chat(CHAT, "be kind") == [{"role": "system", "content": "be kind"}, *CHAT]
    assert as_chat([1, 2], "be kind") == [1, 2]


@pytest.mark.real_model
def test_the_real_models_template_begins_and_ends_every_turn_with_single_tokens() -> None:
    folder = find_installed("smollm2-135m")
    if folder is None:
        pytest.skip("smollm2-135m is not there: skipstone pull smollm2-135m")
    tokens = HFTokenizer.load(folder).encode_chat([{"role": "user", "content": "Hi"}])
    begin, end = 1, 2
    assert (tokens[0], tokens.count(begin), tokens.count(end)) == (begin, 3, 2)
