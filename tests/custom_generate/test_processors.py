"""Processors of the caller's own, with and without memory."""

import copy
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

import pytest
import torch
from generating import ONE, PADDED, call, knowing, network, ours, wild
from transformers import LogitsProcessorList, SynthIDTextWatermarkingConfig

from skipstone.errors import UsageError
from skipstone.testing import tiny_network

MODEL = network().model


class Diary:
    """Leaves scores alone and writes down what it is shown."""

    def __init__(self) -> None:
        self.pages: list[tuple[list[list[int]], torch.Tensor]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.pages.append((input_ids.tolist(), scores.clone()))
        return scores


class Moody:
    """Dislikes at its n-th call what it disliked less at the one before."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        scores[:, self.calls % 5 :: 5] -= 2.0 * self.calls
        return scores


class Rotating:
    """Favours a token that depends on the newest one, and remembers nothing."""

    stateless = True

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        favoured = (input_ids[:, -1:] * 7 + 3) % scores.shape[1]
        return scores.scatter_add(1, favoured, scores.new_full(favoured.shape, 4.0))


def _with(*processors: Any) -> dict[str, Any]:
    return {"max_new_tokens": 14, "logits_processor": LogitsProcessorList(processors)}


def test_a_processor_is_called_as_by_plain_decoding_however_much_is_accepted():
    for depth in (1, 6):
        plain, drafted = Diary(), Diary()
        text = call(MODEL, ONE, **_with(plain), repetition_penalty=1.3)
        drafter = knowing(text, ONE, depth)
        assert torch.equal(ours(MODEL, ONE, drafter, **_with(drafted), repetition_penalty=1.3), text)
        assert [page[0] for page in drafted.pages] == [page[0] for page in plain.pages]
        torch.testing.assert_close([p[1] for p in drafted.pages], [p[1] for p in plain.pages])
        assert len(drafter.records) < 14


def test_a_processor_is_called_once_a_token_whatever_a_drafter_leaves_in_doubt():
    plain = Diary()
    text = call(MODEL, ONE, **_with(plain))
    for seed in range(6):
        drafted = Diary()
        assert torch.equal(ours(MODEL, ONE, wild(text, ONE, seed), **_with(drafted)), text)
        assert [page[0] for page in drafted.pages] == [page[0] for page in plain.pages]


@pytest.mark.parametrize("drafter", ["none", "ngram:min=1"])
def test_a_processor_with_memory_keeps_it_right(drafter: str):
    text = call(MODEL, ONE, **_with(Moody()))
    assert not torch.equal(text, call(MODEL, ONE, max_new_tokens=14))
    assert torch.equal(ours(MODEL, ONE, drafter, **_with(Moody())), text)


def test_a_processor_may_change_scores_in_place_in_any_dtype():
    model = tiny_network(agreeing=0.9, dtype=torch.float32).model
    text = call(model, ONE, **_with(Moody()))
    assert torch.equal(ours(model, ONE, knowing(text, ONE), **_with(Moody())), text)


def test_what_a_processor_makes_of_a_wrong_draft_does_not_matter():
    plain = call(MODEL, ONE, max_new_tokens=14)[0].tolist()

    class Narrow:
        stateless = True

        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            if input_ids[0].tolist() != plain[: input_ids.shape[1]]:
                raise LookupError("this is not what the text says")
            return scores

    with pytest.raises(LookupError):
        ours(MODEL, {"input_ids": [[1, 2]]}, **_with(Narrow()))
    assert ours(MODEL, ONE, "skip:plan=uniform", **_with(Narrow()))[0].tolist() == plain


def test_drafts_leave_out_a_processor_that_may_remember_and_say_so_once():
    text = call(MODEL, ONE, **_with(Moody()))
    with pytest.warns(UserWarning, match="drafts without Moody") as caught:
        assert torch.equal(ours(MODEL, ONE, "skip:plan=uniform", **_with(Moody())), text)
    assert len(caught) == 1


def test_drafts_use_a_processor_that_says_it_is_stateless():
    text = call(MODEL, ONE, **_with(Rotating()))
    assert not torch.equal(text, call(MODEL, ONE, max_new_tokens=14))
    assert torch.equal(ours(MODEL, ONE, "skip:plan=uniform", **_with(Rotating())), text)


@pytest.mark.parametrize("processor", [Moody, Diary])
def test_several_rows_are_decoded_plainly_where_a_processor_may_remember(processor: type):
    ours_saw, plain_saw = processor(), processor()
    text = call(MODEL, PADDED, **_with(plain_saw))
    with pytest.warns(UserWarning, match=f"plainly: {processor.__name__} may look at all rows"):
        assert torch.equal(ours(MODEL, PADDED, **_with(ours_saw)), text)
    if processor is Diary:
        assert [page[0] for page in ours_saw.pages] == [page[0] for page in plain_saw.pages]


def test_several_rows_go_at_their_own_speed_where_a_processor_is_stateless():
    text = call(MODEL, PADDED, **_with(Rotating()))
    drafter = knowing(text, PADDED)
    assert torch.equal(ours(MODEL, PADDED, drafter, **_with(Rotating())), text)
    assert len(drafter.records) < 3 * 14


@pytest.mark.parametrize("drafter", ["ngram:min=1", "skip:plan=uniform"])
@pytest.mark.filterwarnings("ignore:skipstone.decode drafts without")
def test_processors_of_transformers_that_remember_are_right_too(drafter: str):
    synthid = SynthIDTextWatermarkingConfig(keys=[654, 400, 836, 123], ngram_len=3)
    for more in ({"guidance_scale": 1.5}, {"watermarking_config": synthid}):
        text = call(MODEL, ONE, max_new_tokens=14, **more)
        assert torch.equal(ours(MODEL, ONE, drafter, max_new_tokens=14, **more), text)


def test_a_prefix_function_is_asked_about_no_text_it_excludes():
    """Each prompt may go on only along its own line, and the function knows nothing else."""
    lines = [[t + 1 for t in range(12)], [t + 20 for t in range(12)]]

    def allowed(prompt: int, text: torch.Tensor) -> list[int]:
        said = text.tolist()[3:]
        assert lines[prompt][: len(said)] == said
        return [lines[prompt][len(said)]]

    allowed.stateless = True  # type: ignore[attr-defined]
    settings = {"input_ids": [[1, 20, 1], [20, 1, 20]], "max_new_tokens": 12, "prefix_allowed_tokens_fn": allowed}
    for drafter in ("ngram:min=1", "skip:plan=uniform,width=2", "exit:layer=1"):
        assert ours(MODEL, settings, drafter)[:, 3:].tolist() == lines


def test_a_prefix_function_that_may_remember_is_shown_the_text_alone():
    """As a grammar that moves on with every call."""
    seen: list[int] = []

    def grammar(prompt: int, text: torch.Tensor) -> list[int]:
        seen.append(len(text))
        return list(range(len(seen), len(seen) + 20))

    plain = call(MODEL, ONE, max_new_tokens=14, prefix_allowed_tokens_fn=grammar)
    lengths, seen[:] = list(seen), []
    with pytest.warns(UserWarning, match="drafts without PrefixConstrained"):
        text = ours(MODEL, ONE, "skip:plan=uniform", max_new_tokens=14, prefix_allowed_tokens_fn=grammar)
    assert torch.equal(text, plain)
    assert seen == lengths


def test_hooks_of_others_on_layers_are_refused_whenever_they_come():
    model = copy.deepcopy(MODEL)
    text = call(model, ONE, max_new_tokens=6)
    assert torch.equal(ours(model, ONE, max_new_tokens=6), text)
    steer = model.model.layers[1].register_forward_hook(lambda *_: None)
    with pytest.raises(UsageError, match="layer 1 has a forward hook"):
        ours(model, ONE, max_new_tokens=6)
    steer.remove()
    for part, name in ((model.model, "its body"), (model, "the model")):
        look = part.register_forward_pre_hook(lambda *_: None)
        with pytest.raises(UsageError, match=f"{name} has a forward hook"):
            ours(model, ONE, max_new_tokens=6)
        look.remove()
    model.model.layers[0].forward = lambda *args, **more: None
    with pytest.raises(UsageError, match="layer 0 has"):
        ours(model, ONE, max_new_tokens=6)


def test_inputs_that_another_library_prepares_are_refused():
    model = copy.deepcopy(MODEL)
    model.prepare_inputs_for_generation = (
        model.prepare_inputs_for_generation
    )  # put back, as a library does behind itself
    assert torch.equal(ours(model, ONE, max_new_tokens=6), call(MODEL, ONE, max_new_tokens=6))
    own = model.prepare_inputs_for_generation
    model.prepare_inputs_for_generation = wraps(own)(lambda *args, **more: own(*args, **more))
    with pytest.raises(UsageError, match="prepared by another library"):
        ours(model, ONE, max_new_tokens=6)


def test_threads_generate_with_one_model_side_by_side():
    model = copy.deepcopy(MODEL)
    text, attention = call(model, ONE, max_new_tokens=14), model.config._attn_implementation
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: ours(model, ONE, "exit:layer=1", max_new_tokens=14), range(12)))
    assert all(torch.equal(each, text) for each in found)
    assert model.config._attn_implementation == attention


def test_an_error_of_a_processor_comes_through_and_leaves_the_drafter_clean():
    class Failing:
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            if input_ids.shape[1] == 11:
                raise LookupError("page 11 is missing")
            return scores

    drafter = knowing(call(MODEL, ONE, max_new_tokens=14), ONE)
    with pytest.raises(LookupError, match="page 11"):
        ours(MODEL, ONE, drafter, **_with(Failing()))
    assert not drafter.active
