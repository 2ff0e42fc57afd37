"""generate, stream and generate_batch agree; samples share their prompt; leaving early leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_folder import EOS, tiny_folder

import skipstone
from skipstone.errors import NumericsError, RequestError, UsageError
from skipstone.hf.network import HFNetwork
from skipstone.sampling import derived_seed
from skipstone.text.generation import Generation, Piece
from skipstone.text.in_order import in_order
from skipstone.text.language_model import LanguageModel

PROMPTS = ["the and the and", "a", [{"role": "user", "content": "the 🙂"}], [40, 41, 42, 40, 41]]
SAMPLED: dict[str, Any] = {"temperature": 1.0, "top_k": 40, "seed": 5, "max_new_tokens": 24, "eos_token_id": []}
DRAFTERS = ["none", "ngram:min=1", "skip:plan=uniform,width=2", "exit:layer=2,depth=3"]


def words(generation: Generation) -> tuple[str, list[int], str | None, int]:
    return generation.text, generation.tokens, generation.stop_reason, generation.seed


def finished(pieces: list[Piece]) -> list[Generation]:
    return [piece.generation for piece in pieces if piece.generation is not None]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_generate_stream_and_generate_batch_agree(model: LanguageModel, drafter: str) -> None:
    batch = model.generate_batch(PROMPTS, drafter=drafter, rows=3, **SAMPLED)
    for prompt, expected in zip(PROMPTS, batch, strict=True):
        alone = model.generate(prompt, drafter=drafter, **SAMPLED)
        pieces = list(model.stream(prompt, drafter=drafter, **SAMPLED))
        assert words(alone) == words(expected) == words(finished(pieces)[0])
        assert "".join(piece.text for piece in pieces) == alone.text == model.tokenizer.decode(alone.tokens)
        assert [token for piece in pieces for token in piece.tokens] == alone.tokens


def test_every_drafter_writes_the_same_text(model: LanguageModel) -> None:
    texts = [[words(g) for g in model.generate_batch(PROMPTS, drafter=drafter, **SAMPLED)] for drafter in DRAFTERS]
    assert texts == texts[:1] * len(DRAFTERS)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_the_texts_of_a_batch_come_in_the_order_of_their_prompts(model: LanguageModel, rows: int) -> None:
    batch = model.generate_batch(PROMPTS, rows=rows, num_return_sequences=2, **SAMPLED)
    expected = [g for p in PROMPTS for g in model.generate_batch([p], num_return_sequences=2, **SAMPLED)]
    assert list(map(words, batch)) == list(map(words, expected))


def test_samples_of_one_prompt_have_seeds_of_their_own_by_which_each_can_be_had_again(model: LanguageModel) -> None:
    samples = model.generate_batch(["the"], num_return_sequences=3, **SAMPLED)
    assert [g.seed for g in samples] == [derived_seed(5, n) for n in range(3)]
    assert len({g.text for g in samples}) == 3
    again = [model.generate("the", **{**SAMPLED, "seed": g.seed}) for g in samples]
    assert list(map(words, again)) == list(map(words, samples))


def test_samples_of_one_prompt_share_its_prefill(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[int] = []
    run = HFNetwork.run

    def counted(self: HFNetwork, x: torch.Tensor, *more: Any) -> Any:
        nodes.append(x.shape[1])
        return run(self, x, *more)

    monkeypatch.setattr(HFNetwork, "run", counted)
    model.generate_batch([[40] * 30], num_return_sequences=4, max_new_tokens=2)
    assert [count for count in nodes if count > 1] == [29]


def test_a_drawn_seed_gives_the_same_text_again(model: LanguageModel) -> None:
    drawn = model.generate("the", **{**SAMPLED, "seed": None})
    assert words(model.generate("the", **{**SAMPLED, "seed": drawn.seed})) == words(drawn)


def test_generate_gives_one_text_only(model: LanguageModel) -> None:
    with pytest.raises(RequestError, match=r"generate gives one text: use generate_batch"):
        model.generate("the", num_return_sequences=2)


def test_no_prompts_give_no_texts(model: LanguageModel) -> None:
    assert model.generate_batch([]) == []


def test_wrong_settings_and_prompts_are_told_before_the_first_piece_is_asked_for(model: LanguageModel) -> None:
    with pytest.raises(RequestError, match="the prompt is empty"):
        model.stream("")
    with pytest.raises(UsageError, match="no argument"):
        model.stream("the", max_tokens=3)
    with pytest.raises(RequestError, match="rows=0"):
        model.stream_batch(["the"], rows=0)
    with pytest.raises(UsageError, match='did you mean "ngram"'):
        model.stream("the", drafter="ngrm")


class Watcher:
    """A drafter that drafts nothing and knows which rows it serves."""

    def __init__(self) -> None:
        self.rows: set[int] = set()

    def admit(self, row: int, request: Any) -> None:
        assert row not in self.rows
        self.rows.add(row)

    def release(self, row: int) -> None:
        self.rows.remove(row)

    def propose(self, state: Any) -> Any:
        return state.nothing()

    def observe(self, record: Any) -> None:
        pass


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    watcher = Watcher()
    yield watcher
    assert watcher.rows == set()


def test_a_stream_closed_early_leaves_drafter_and_model_as_they_were(model: LanguageModel, watcher: Watcher) -> None:
    stream = model.stream_batch(PROMPTS, rows=2, drafter=watcher, **SAMPLED)
    for _ in range(5):
        next(stream)
    assert len(watcher.rows) == 2
    stream.close()
    assert watcher.rows == set()
    after = model.generate("the and the and", drafter=watcher, **SAMPLED)
    assert words(after) == words(model.generate("the and the and", **SAMPLED))


def test_a_stream_closed_before_its_first_piece_admits_nothing(model: LanguageModel, watcher: Watcher) -> None:
    model.stream_batch(PROMPTS, drafter=watcher, **SAMPLED).close()


def test_an_exception_of_the_consumer_leaves_nothing_behind(model: LanguageModel, watcher: Watcher) -> None:
    def consume() -> None:
        for piece in model.stream("the", drafter=watcher, **SAMPLED):
            if len(piece.tokens):
                raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        consume()


def test_an_interrupted_stream_gives_what_it_has_and_then_the_interrupt(
    model: LanguageModel, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter(range(6))

    def propose(state: Any) -> Any:
        if next(steps, None) is None:
            raise KeyboardInterrupt
        return state.nothing()

    monkeypatch.setattr(watcher, "propose", propose)
    pieces: list[Piece] = []
    with pytest.raises(KeyboardInterrupt):
        for piece in model.stream_batch(PROMPTS[:2], drafter=watcher, **SAMPLED):
            pieces += [piece]
    short = finished(pieces)
    assert [(g.finish_reason, len(g.tokens)) for g in short] == [("interrupted", 6)] * 2
    for text, whole in zip(short, model.generate_batch(PROMPTS[:2], **SAMPLED), strict=True):
        assert text.tokens == whole.tokens[:6]
        assert text.text == "".join(piece.text for piece in pieces if piece.index == short.index(text))


def test_numbers_that_are_not_finite_come_after_the_text_before_them(
    model: LanguageModel, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits, calls = HFNetwork.logits, iter(range(4))

    def spoiled(self: HFNetwork, hidden: torch.Tensor, subset: Any = None) -> torch.Tensor:
        good = logits(self, hidden, subset)
        return good if next(calls, None) is not None else torch.full_like(good, torch.nan)

    monkeypatch.setattr(HFNetwork, "logits", spoiled)
    tokens: list[int] = []
    with pytest.raises(NumericsError, match="not finite"):
        for piece in model.stream("the", drafter=watcher, max_new_tokens=9, eos_token_id=[]):
            tokens += piece.tokens
    assert len(tokens) == 4


def test_the_end_of_text_and_the_sampling_the_model_recommends_are_its_defaults(tmp_path: Path) -> None:
    recommends = {"do_sample": True, "temperature": 0.8, "top_k": 3}
    model = skipstone.load(tiny_folder(tmp_path / "m", generation=recommends))
    texts = model.generate_batch(["the"], num_return_sequences=4, seed=1, max_new_tokens=12)
    assert len({g.text for g in texts}) > 1
    explicit = model.generate_batch(["the"], num_return_sequences=4, seed=1, max_new_tokens=12, **recommends)
    assert [g.tokens for g in texts] == [g.tokens for g in explicit]
    assert model.defaults["eos_token_id"] == EOS
    greedy = [model.generate("the", do_sample=False, seed=seed, max_new_tokens=12).tokens for seed in (1, 2)]
    assert greedy[0] == greedy[1]


def test_a_list_of_end_tokens_in_the_models_settings_ends_at_any_of_them(folder: Path, model: LanguageModel) -> None:
    plain = model.generate("the", max_new_tokens=30, eos_token_id=[])
    ends = [plain.tokens[12], plain.tokens[20]]
    model.defaults["eos_token_id"] = ends
    try:
        for drafter in DRAFTERS:
            ended = model.generate("the", drafter=drafter, max_new_tokens=30)
            first = min(plain.tokens.index(token) for token in ends)
            assert (ended.tokens, ended.stop_reason) == (plain.tokens[: first + 1], "eos")
            assert ended.finish_reason == "stop"
    finally:
        model.defaults["eos_token_id"] = EOS


def test_a_stop_string_that_is_a_special_token_ends_the_text_though_it_has_no_text(model: LanguageModel) -> None:
    text = model.generate("the and", max_new_tokens=12, eos_token_id=[])
    special = {token: string for string, token in model.tokenizer.special.items()}
    assert special[1] == "<|end|>"
    bias = {1: 1e3}
    said = model.generate("the and", max_new_tokens=12, eos_token_id=[], logit_bias=bias, stop_strings=["<|end|>", "q"])
    assert (said.tokens, said.stop_reason) == ([1], "stop_string")
    assert len(text.tokens) == 12


def test_a_folder_for_what_is_kept_may_be_a_string(folder: Path, tmp_path: Path) -> None:
    assert skipstone.load(folder, cache=str(tmp_path / "kept")).generate("the", max_new_tokens=2).tokens


def test_what_a_generation_config_asks_for_in_vain_is_told(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "tiny", generation={"no_repeat_ngram_size": 3, "suppress_tokens": [7, 8]})
    notes = skipstone.load(folder).notes
    assert any("no_repeat_ngram_size=3, suppress_tokens=[7, 8]: not served here" in note for note in notes)


def test_a_text_ends_with_the_context(model: LanguageModel) -> None:
    text = model.generate([40] * 250, max_new_tokens=10**12, eos_token_id=[])
    assert (len(text.tokens), text.stop_reason, text.finish_reason) == (6, "context", "length")


def test_the_figures_of_a_text_add_up(model: LanguageModel) -> None:
    text = model.generate("the", drafter="exit:layer=3,depth=4", logprobs=2, **SAMPLED)
    summary = text.to_json()
    assert summary["mean_accepted_length"] == len(text.tokens) / text.summary.steps
    assert 0 < summary["acceptance_rate"] <= 1
    assert set(summary["time"]) == {"draft_s", "verify_s", "search_s", "other_s", "prefill_s"}
    assert sum(summary["time"].values()) <= text.seconds
    assert [entry["token"] for entry in summary["logprobs"]] == text.tokens
    assert {len(entry["top"]) for entry in summary["logprobs"]} == {2}


def test_texts_in_order_are_each_whole_and_the_first_comes_at_once(model: LanguageModel) -> None:
    pieces = list(model.stream_batch(PROMPTS, rows=3, **SAMPLED))
    ordered = list(in_order(iter(pieces)))
    assert [piece.index for piece in ordered] == sorted(piece.index for piece in pieces)
    for index in range(len(PROMPTS)):
        texts = [[p.text for p in given if p.index == index] for given in (pieces, ordered)]
        assert texts[0] == texts[1]
    endless = iter([Piece("a", [1], 0), Piece("b", [2], 1)])
    assert next(in_order(endless)).text == "a"


STORIES = Path(__file__).parents[3] / "shared" / "models" / "stories260k"


@pytest.mark.skipif(not STORIES.is_dir(), reason=f"the trained tiny model is not at {STORIES}")
def test_a_trained_model_tells_the_same_story_with_every_drafter_and_stops_where_told() -> None:
    model = skipstone.load(STORIES)
    told = [model.generate("Once upon a time", drafter=drafter, max_new_tokens=80) for drafter in DRAFTERS]
    assert {g.text for g in told} == {told[0].text}
    assert "Lily" in told[0].text
    pieces = list(model.stream("Once upon a time", drafter=DRAFTERS[3], max_new_tokens=80, stop_strings=["Lily."]))
    assert "".join(piece.text for piece in pieces) == told[0].text[: told[0].text.index("Lily.")]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_generations_of_one_model_may_overlap(folder: Path, drafter: str) -> None:
    model = skipstone.load(folder, drafter=drafter)
    alone = [words(model.generate(prompt, **SAMPLED)) for prompt in PROMPTS[:2]]
    first = model.stream(PROMPTS[0], **SAMPLED)
    pieces = [next(first)]
    assert words(model.generate(PROMPTS[1], **SAMPLED)) == alone[1]
    assert words(finished([*pieces, *first])[0]) == alone[0]


@pytest.mark.parametrize(
    ("prompts", "settings", "says"),
    [
        ("Hello", {}, "prompts must be a list of prompts, not str"),
        (["a"], {"rows": 2.5}, "rows=2.5 is not a whole number"),
        ([None], {}, "this is NoneType: a prompt is text"),
        ([[True, False]], {}, "item 1 is bool"),
        (["a"], {"drafter": object()}, 'neither a name like "ngram" nor a drafter'),
        (["a"], {"do_sample": "no"}, "do_sample='no' is neither True nor False"),
        (["a"], {"logit_bias": {"5": 1.0}}, "is not a mapping of token ids to numbers"),
        (["a"], {"logit_bias": [5]}, "is not a mapping of token ids to numbers"),
        (["a"], {"constraint": "abc"}, "has no method mask"),
        (["a"], {"stop_token_ids": 5}, "stop_token_ids=5 is not a list"),
        (["a"], {"eos_token_id": 2.0}, "eos_token_id=2.0 is not a list"),
        (["a"], {"stop_strings": 5}, "stop_strings=5 is not a list"),
        (["a"], {"temperature": 1e-40}, "temperature=1e-40 is out of range"),
        (["a"], {"presence_penalty": 1e39}, "presence_penalty=1e\\+39 is out of range"),
    ],
)
def test_what_no_text_can_be_made_of_is_told(
    model: LanguageModel, prompts: Any, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises((RequestError, UsageError), match=says):
        model.generate_batch(prompts, **settings)
