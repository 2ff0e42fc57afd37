"""Text comes out piece by piece, whole characters only, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny_folder import SPECIAL, byte_fallback, byte_level

from skipstone.text.detokenizer import Detokenizer

BYTES, FALLBACK = byte_level(), byte_fallback()
PIECES = ["é", "漢字", "🙂", "👩‍👩‍👧", "🏳️‍🌈", "the and", " ", "\n", "a", "ü", "\u200b", "न्दी", "�"]
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
byte_tokens = st.lists(st.integers(0, BYTES.get_vocab_size() - 1), max_size=24)
cuts = st.lists(st.integers(1, 4), min_size=40, max_size=40)


def blocks(tokens: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
    """``tokens`` in consecutive blocks of the given sizes."""
    out, start = [], 0
    for size in sizes:
        out.append(tokens[start : start + size])
        start += size
    return [*out, tokens[start:]]


def pieces(decode: Callable[[Sequence[int]], str], parts: Sequence[Sequence[int]]) -> tuple[list[str], str]:
    detokenizer = Detokenizer(decode)
    return [detokenizer.push(part) for part in parts], detokenizer.flush()


@given(byte_tokens, cuts)
def test_the_joined_pieces_are_the_decoding_of_all_tokens_even_where_they_are_no_text(
    tokens: list[int], sizes: list[int]
) -> None:
    out, rest = pieces(BYTES.decode, blocks(tokens, sizes))
    assert "".join(out) + rest == BYTES.decode(tokens)


@given(texts, cuts)
def test_no_piece_of_a_text_holds_half_a_character(text: str, sizes: list[int]) -> None:
    out, rest = pieces(BYTES.decode, blocks(BYTES.encode(text).ids, sizes))
    assert "".join(out) + rest == text
    assert "".join(out).count("�") + rest.count("�") == text.count("�")
    assert all(piece in text for piece in out)


@given(byte_tokens, cuts, cuts)
def test_the_text_does_not_depend_on_how_tokens_come_in_blocks(
    tokens: list[int], sizes: list[int], others: list[int]
) -> None:
    one, rest = pieces(BYTES.decode, blocks(tokens, sizes))
    other, other_rest = pieces(BYTES.decode, blocks(tokens, others))
    assert "".join(one) + rest == "".join(other) + other_rest


@given(st.lists(st.integers(0, FALLBACK.get_vocab_size() - 1), max_size=24), cuts, cuts)
@example([3 + 0xE2, 3 + 0x82, 3 + 0xAC, 3 + 0xFF, 259], [5] * 40, [1] * 40)
def test_nor_does_it_where_byte_tokens_decode_otherwise_once_more_follow(
    tokens: list[int], sizes: list[int], others: list[int]
) -> None:
    one, rest = pieces(FALLBACK.decode, blocks(tokens, sizes))
    other, other_rest = pieces(FALLBACK.decode, blocks(tokens, others))
    assert "".join(one) + rest == "".join(other) + other_rest


@given(st.lists(st.sampled_from([" the", " a", "b", "é", "🙂", "h.", "  "]), max_size=8).map("".join), cuts)
def test_the_space_before_a_word_survives_a_tokenizer_that_drops_it_at_the_beginning(
    text: str, sizes: list[int]
) -> None:
    tokens = FALLBACK.encode(text.replace(" ", "▁")).ids
    out, rest = pieces(FALLBACK.decode, blocks(tokens, sizes))
    assert "".join(out) + rest == FALLBACK.decode(tokens) == text.removeprefix(" ")


def test_special_tokens_have_no_text() -> None:
    tokens = [*BYTES.encode("the").ids, *range(len(SPECIAL)), *BYTES.encode(" and").ids]
    out, rest = pieces(BYTES.decode, [[token] for token in tokens])
    assert "".join(out) + rest == "the and"


def test_an_emoji_comes_out_with_its_last_byte() -> None:
    out, rest = pieces(BYTES.decode, [[token] for token in BYTES.encode("a🙂b").ids])
    assert out == ["a", "", "", "", "🙂", "b"]
    assert rest == ""


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_text_that_ends_inside_a_character_says_so_only_at_the_end(count: int) -> None:
    out, rest = pieces(BYTES.decode, [[token] for token in BYTES.encode("🙂").ids[:count]])
    assert (set(out), rest) == ({""}, "�")
