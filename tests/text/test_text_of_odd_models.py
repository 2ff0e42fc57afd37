"""Models whose vocabulary, ends and templates are not quite as expected: no text is lost, none is made up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from folders import change
from tiny_folder import BOS, EOS, save_tokenizer, tiny_folder
from tiny_gguf import write_gguf
from tokenizers import AddedToken
from transformers import GenerationConfig, PreTrainedTokenizerFast

import skipstone
from skipstone.errors import RequestError
from skipstone.hf.quiet import quiet
from skipstone.testing import tiny_network
from skipstone.text.language_model import LanguageModel

TOKENS = 269  # that the tokenizer knows
PADDED = 280  # rows of the embedding


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """A model with eleven more tokens than its tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "padded"
    network = tiny_network("llama", vocab_size=PADDED, agreeing=0.9, eos_token_id=EOS)
    network.model.generation_config = GenerationConfig(eos_token_id=EOS)
    with quiet():
        network.model.save_pretrained(folder)
    save_tokenizer(folder)
    return skipstone.load(folder, dtype="float64")


def streamed(model: LanguageModel, prompt: str, **settings: Any) -> tuple[str, list[int]]:
    pieces = list(model.stream(prompt, **settings))
    done = pieces[-1].generation
    assert done is not None
    assert "".join(piece.text for piece in pieces) == done.text
    return done.text, done.tokens


@pytest.mark.parametrize("drafter", ["none", "ngram:min=1", "exit:layer=2", "skip"])
def test_a_token_without_a_text_has_none_but_stays_in_the_output(padded: LanguageModel, drafter: str) -> None:
    bias = {PADDED - 1: 30.0, 100: 28.0, 101: 27.0}
    settings: dict[str, Any] = {"logit_bias": bias, "temperature": 5.0, "seed": 3, "max_new_tokens": 40}
    text, tokens = streamed(padded, "the", drafter=drafter, eos_token_id=[], **settings)
    assert PADDED - 1 in tokens
    known = [token for token in tokens if token < TOKENS]
    assert text == padded.tokenizer.decode(known)
    assert (text, tokens) == streamed(padded, "the", eos_token_id=[], **settings)


def test_plain_decoding_may_choose_padding_as_transformers_does(padded: LanguageModel) -> None:
    head = padded.network.model.lm_head.weight
    before = head[PADDED - 1].clone()
    ids = padded.encode("the and a")
    try:
        head[PADDED - 1] = 3 * head[:TOKENS].abs().max(0).values
        given = torch.tensor([ids])
        theirs = padded.network.model.generate(
            given, max_new_tokens=6, do_sample=False, eos_token_id=None, pad_token_id=EOS
        )
        ours = padded.generate("the and a", max_new_tokens=6, do_sample=False, eos_token_id=[]).tokens
        assert ours == theirs[0, len(ids) :].tolist()
    finally:
        head[PADDED - 1] = before


def test_a_stop_string_is_found_across_tokens_without_text(padded: LanguageModel) -> None:
    decode = padded.tokenizer.decode
    the, a = padded.encode("the"), padded.encode("a")
    assert decode([*the, PADDED - 1, PADDED - 2, *a]) == "thea"


def test_padding_may_be_part_of_a_prompt_of_token_ids(padded: LanguageModel) -> None:
    assert padded.generate([5, PADDED - 1, 7], max_new_tokens=2, eos_token_id=[]).prompt_tokens == 3
    with pytest.raises(RequestError, match=f"token id {PADDED} is not in the model's vocabulary of {PADDED}"):
        padded.generate([5, PADDED, 7])


@pytest.fixture(scope="module")
def several_ends(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    folder = tiny_folder(tmp_path_factory.mktemp("models") / "ends")
    change(folder / "generation_config.json", eos_token_id=[EOS, 100, 101])
    return skipstone.load(folder, dtype="float64")


@pytest.mark.parametrize("end", [EOS, 100, 101])
@pytest.mark.parametrize("drafter", ["none", "exit:layer=2,depth=4"])
def test_every_end_of_text_that_the_model_names_ends_it(several_ends: LanguageModel, end: int, drafter: str) -> None:
    whole = several_ends.generate("the", max_new_tokens=4, eos_token_id=[], logit_bias={end: -100.0})
    late = several_ends.generate("the", max_new_tokens=8, logit_bias={end: 1e4}, drafter=drafter)
    assert (late.tokens, late.finish_reason, late.stop_reason) == ([end], "stop", "eos")
    assert late.text == ("" if end == EOS else several_ends.tokenizer.decode([end]))
    assert whole.stop_reason == "length"


def with_tokens(folder: Path, tokens: Sequence[AddedToken]) -> list[int]:
    """The folder's tokenizer with further tokens in place of its last ones' ids; their ids."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer.add_tokens(list(tokens))
    tokenizer.save_pretrained(folder)
    return [tokenizer.convert_tokens_to_ids(token.content) for token in tokens]


def test_added_tokens_have_a_text_unless_they_are_special(tmp_path: Path) -> None:
    network = tiny_network("llama", vocab_size=PADDED, eos_token_id=EOS)
    with quiet():
        network.model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    added = [AddedToken("<think>", normalized=False), AddedToken("<|tool|>", special=True), AddedToken("naïve é")]
    ids = with_tokens(tmp_path, added)
    model = skipstone.load(tmp_path, dtype="float64")
    assert model.encode("a<think>b")[1] == ids[0]
    bias = dict.fromkeys(ids, 40.0)
    text, tokens = streamed(model, "the", logit_bias=bias, temperature=3.0, seed=1, max_new_tokens=12, eos_token_id=[])
    assert set(ids) <= set(tokens)
    assert text == "".join({ids[0]: "<think>", ids[2]: "naïve é"}.get(token, "") for token in tokens)


NO_SYSTEM = (
    "{{ bos_token }}"
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
)


def test_a_template_without_a_system_role_says_so_in_its_own_words(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    (folder / "chat_template.jinja").write_text(NO_SYSTEM)
    model = skipstone.load(folder)
    user = {"role": "user", "content": "the"}
    assert model.encode([user])[0] == BOS
    with pytest.raises(RequestError, match=r"chat template refuses these messages: System role not supported$"):
        model.encode([{"role": "system", "content": "be kind"}, user])


def test_a_template_that_ends_texts_elsewhere_keeps_the_models_ends(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    change(folder / "tokenizer_config.json", eos_token="<|user|>")
    model = skipstone.load(folder)
    assert model.tokenizer.eos_id == 2
    assert model.generate("the", max_new_tokens=3, logit_bias={EOS: 1e4}).stop_reason == "eos"


@pytest.mark.parametrize(("add_bos", "count"), [(True, 1), (False, 0), (None, 0)])
def test_a_gguf_model_begins_texts_with_bos_once_or_not_as_its_file_says(
    tmp_path: Path, add_bos: bool | None, count: int
) -> None:
    write_gguf(tmp_path / "tiny.gguf", add_bos=add_bos)
    model = skipstone.load(tmp_path / "tiny.gguf", cache=tmp_path / "cache", progress=lambda line: None)
    bos = model.tokenizer.bos_id
    assert [model.encode("hi <x>").count(bos), model.encode("<|im_start|>hi").count(bos)] == [count, 1]
    assert model.encode([{"role": "user", "content": "hi"}]).count(bos) == 1


def test_a_tokenizer_that_was_saved_truncating_does_not_cut_prompts(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    truncation = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    change(folder / "tokenizer.json", truncation=truncation)
    assert len(skipstone.load(folder).encode("the and a and the and a")) > 6
