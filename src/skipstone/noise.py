"""Counter-based random numbers: the same (seed, position) gives the same draw, whoever asks and in whatever order.

Draft and verification share these draws, so that a draft guesses what the target will *sample*, not just what it likes
best; and plain decoding, which asks in another order and batch, samples the same text.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

_MASK = (1 << 64) - 1


class Stream(IntEnum):
    """Independent uses of one (seed, position)."""

    TOKEN = 0  # which token the target samples (and the draft guesses)
    DRAFT = 1  # the draft's own sample under the rejection rule
    ACCEPT = 2  # the coin of the rejection rule
    FORK = 3  # seeds of further samples of one prompt
    DROP_KEY = 4  # training: seeds by step, layer, micro-batch and rank
    DROP_COUNT = 5  # how many samples a layer drops
    DROP_ROWS = 6  # which ones
    SEARCH = 7  # plans tried at random


def key(seed: int, position: int, stream: Stream = Stream.TOKEN) -> int:
    """A 64-bit key: splitmix64's finaliser chained over the three numbers."""
    state = 0
    for word in (seed, position, int(stream)):
        state = (state + (word & _MASK) + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def uniform(seed: int, position: int, stream: Stream) -> float:
    """One number in (0, 1) with 53 bits."""
    return ((key(seed, position, stream) >> 11) + 0.5) / (1 << 53)


def gumbel(seed: int, position: int, size: int, *, stream: Stream = Stream.TOKEN, device: torch.device) -> Tensor:
    """[size] float32 standard Gumbel noise; argmax(log-probabilities + noise) is a sample of the distribution.

    32 hashed bits h a token give u = (h + 1/2) / 2^32 and -log(-log(1 - u)): u is small, hence finely resolved, exactly
    where the noise is large and decides. Integer hashing, so every device draws the same bits.
    """
    bits = _hash(torch.arange(size, dtype=torch.int32, device=device), key(seed, position, stream))
    # bits is a signed view of h; adding 2^31 in float32 keeps the small values exact, which u near 0 needs
    u = torch.where(bits >= 0, bits.float() + 0.5, bits.float() + 4294967296.5) * 2.0**-32
    return u.clamp_(max=1 - 2.0**-24).neg_().log1p_().neg_().log_().neg_()


def _hash(counter: Tensor, key64: int) -> Tensor:
    """Two keyed rounds of a 32-bit integer mixer (multiply, xor-shift) over ``counter`` [V] int32, in place."""
    for word in (key64 & 0xFFFFFFFF, key64 >> 32):
        counter.bitwise_xor_(_signed(word))
        counter.bitwise_xor_(_shift_right(counter, 16)).mul_(_signed(0x7FEB352D))
        counter.bitwise_xor_(_shift_right(counter, 15)).mul_(_signed(0x846CA68B))
        counter.bitwise_xor_(_shift_right(counter, 16))
    return counter


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift of int32, whose own ``>>`` drags the sign along."""
    return (x >> bits).bitwise_and_((1 << (32 - bits)) - 1)


def _signed(word: int) -> int:
    """The int32 with the bits of an unsigned 32-bit word."""
    return word - (1 << 32) if word >= 1 << 31 else word
