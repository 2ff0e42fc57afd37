"""Stop strings end a text wherever its tokens break, and nothing of them is ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_folder import byte_fallback, byte_level

from skipstone.row import Emission
from skipstone.stopping import Stop
from skipstone.telemetry import StepRecord, Timing
from skipstone.text.language_model import LanguageModel
from skipstone.text.stop_strings import StopStrings, cut, safe_length
from skipstone.text.writer import Writer

BYTES, FALLBACK = byte_level(), byte_fallback()
words = st.text(alphabet="ab🙂é ", min_size=0, max_size=12)
strings = st.lists(st.text(alphabet="ab🙂é ", min_size=1, max_size=4), min_size=1, max_size=3)


def tokens_of(text: str) -> list[int]:
    return BYTES.encode(text).ids


def written(text: str, stops: list[str]) -> str:
    """``text`` as a reader sees it who gets character by character: whichever string is complete first ends it."""
    ends = [n for n in range(len(text) + 1) if any(string in text[:n] for string in stops)]
    return cut(text[: min(ends)], stops) if ends else text


def clip(rule: StopStrings, tokens: list[int], sizes: list[int]) -> tuple[list[int], Stop | None]:
    """The text up to its end, given in blocks of ``sizes``, then of one token."""
    output: list[int] = []
    for size in [*sizes, *[1] * len(tokens)]:
        block = tokens[len(output) : len(output) + size]
        stop = rule.clip(output, block)
        if stop is not None:
            return [*output, *block[: stop.count]], stop
        output += block
    return output, None


@given(words, strings, st.lists(st.integers(1, 5), max_size=6))
def test_a_text_ends_at_the_same_token_however_it_comes_in_blocks(
    text: str, stops: list[str], sizes: list[int]
) -> None:
    rule = StopStrings(tuple(stops), BYTES.decode)
    kept, stop = clip(rule, tokens_of(text), sizes)
    alone, single = clip(rule, tokens_of(text), [])
    assert kept == alone
    assert (stop is None) == (single is None) == (not any(string in text for string in stops))


def test_a_string_ends_the_text_in_the_middle_of_an_accepted_block() -> None:
    rule = StopStrings(("END",), BYTES.decode)
    assert rule.clip(tokens_of("so "), tokens_of("ENDless")) == Stop(3, "stop_string")


def test_a_string_is_found_across_the_border_of_two_blocks() -> None:
    rule = StopStrings(("\n\nUser:",), BYTES.decode)
    assert rule.clip(tokens_of("fine.\n\nUs"), tokens_of("er: hi")) == Stop(3, "stop_string")


def test_a_string_is_found_although_the_block_goes_on_with_bytes_that_spoil_it() -> None:
    euro, broken = [3 + 0xE2, 3 + 0x82, 3 + 0xAC], [3 + 0xFF]
    rule = StopStrings(("€",), FALLBACK.decode)
    assert rule.clip([], [*euro, *broken]) == rule.clip([], euro) == Stop(3, "stop_string")


def test_the_first_of_several_strings_cuts_the_text() -> None:
    assert cut("one two three", ["three", "two"]) == "one "
    assert cut("one", ["two"]) == "one"
    assert cut("", ["two"]) == ""


def test_a_string_that_is_complete_ends_the_text_although_a_longer_one_had_begun_before_it() -> None:
    kept, stop = clip(StopStrings(("🙂aé", "a"), BYTES.decode), tokens_of("🙂aé"), [])
    assert stop is not None
    assert cut(BYTES.decode(kept), ["🙂aé", "a"]) == "🙂" == written("🙂aé", ["🙂aé", "a"])


@given(words, strings)
def test_what_is_safe_to_show_can_never_be_part_of_a_stop_string(text: str, stops: list[str]) -> None:
    shown = text[: safe_length(text, stops)]
    for string in stops:
        for end in range(1, len(string)):
            assert not text.endswith(string[:end]) or len(shown) <= len(text) - end


def emission(tokens: list[int], end: bool) -> Emission:
    record = StepRecord(0, 0, 0, 0, 0, len(tokens), Timing())
    return Emission(0, tokens, None, "stop_string" if end else None, record, None)


@given(words, strings, st.lists(st.integers(1, 5), max_size=6))
def test_streamed_text_never_shows_any_part_of_a_stop_string(text: str, stops: list[str], sizes: list[int]) -> None:
    kept, stop = clip(StopStrings(tuple(stops), BYTES.decode), tokens_of(text), [])
    writer = Writer(0, 1, 0, BYTES.decode, tuple(stops))
    shown = ""
    for size in [*sizes, *[1] * len(kept)]:
        block = kept[len(writer.tokens) : len(writer.tokens) + size]
        if not block:
            break
        shown += writer.write(emission(block, stop is not None and len(writer.tokens) + len(block) == len(kept))).text
        assert written(text, stops).startswith(shown)
    rest = "" if stop is not None else writer.finish().text
    assert shown + rest == written(text, stops)


@pytest.mark.parametrize("drafter", ["none", "ngram:min=1", "skip", "exit:layer=2,depth=5"])
def test_a_stopped_text_is_the_same_with_every_drafter(model: LanguageModel, drafter: str) -> None:
    whole = model.generate("the and the", max_new_tokens=60, eos_token_id=[], repetition_penalty=1.2)
    stops = [whole.text[n : n + 2] for n in (7, 11, 19)]
    pieces = list(
        model.stream(
            "the and the",
            drafter=drafter,
            max_new_tokens=60,
            eos_token_id=[],
            repetition_penalty=1.2,
            stop_strings=stops,
        )
    )
    done = pieces[-1].generation
    assert done is not None
    assert done.stop_reason == "stop_string"
    assert "".join(piece.text for piece in pieces) == done.text == cut(whole.text, stops)
    assert done.tokens == whole.tokens[: len(done.tokens)]
    assert not any(stop in done.text for stop in stops)
