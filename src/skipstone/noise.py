"""Counter-based random numbers: the same (seed, position) gives the same draw, whoever asks and in whatever order.

Draft and verification share these draws, so that a draft guesses what the target will *sample*, not just what it likes
best; and plain decoding, which asks in another order and batch, samples the same text.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import torch
from torch import Tensor

# no noise is beyond: -log(-log(1 - u)) for u = 2^-33 is 22.87, for u = 1 - 2^-24 it is -2.81
HIGHEST, LOWEST = 23.0, -3.0

_MASK = (1 << 64) - 1
_SIGN = -(1 << 31)  # the top bit of an int32


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

    Integer hashing, so every device draws the same bits, and any token's noise can be had without the others'.
    """
    return gumbel_of(hashed(torch.arange(size, dtype=torch.int32, device=device), key(seed, position, stream)))


def hashed(tokens: Tensor, key64: int) -> Tensor:
    """32 bits for each of ``tokens`` int32, in place: two keyed rounds of an integer mixer (multiply, xor-shift)."""
    x = light(tokens)
    for word in (key64 & 0xFFFFFFFF, key64 >> 32):
        x ^= _signed(word)
        x ^= _shift_right(x, 16)
        x *= _signed(0x7FEB352D)
        x ^= _shift_right(x, 15)
        x *= _signed(0x846CA68B)
        x ^= _shift_right(x, 16)
    return tokens


def gumbel_of(bits: Tensor) -> Tensor:
    """Float32 Gumbel noise, the larger the smaller a hash is (unsigned).

    A hash h gives u = (h + 1/2) / 2^32 and -log(-log(1 - u)): u is small, hence finely resolved, exactly where the
    noise is large and decides.
    """
    # bits is a signed view of h; adding 2^31 in float32 keeps the small values exact, which u near 0 needs
    x = light(bits)
    number, where = (x.float(), torch.where) if isinstance(x, Tensor) else (x.astype(np.float32), np.where)
    u = torch.as_tensor(where(x >= 0, number + 0.5, number + 4294967296.5) * 2.0**-32)
    return u.clamp_(max=1 - 2.0**-24).neg_().log1p_().neg_().log_().neg_()


def light(x: Tensor) -> Any:
    """A tensor on the CPU as numpy, over the same memory: small operations start several times faster there."""
    return x.numpy() if x.device.type == "cpu" else x


def rarest(bits: Tensor) -> Tensor:
    """[M]: the hash with the most noise in each row of ``bits`` [M, N]."""
    return (bits ^ _SIGN).amin(-1) ^ _SIGN


def _shift_right(x: Any, bits: int) -> Any:
    """Logical shift of int32, whose own ``>>`` drags the sign along."""
    shifted = x >> bits
    shifted &= (1 << (32 - bits)) - 1
    return shifted


def _signed(word: int) -> int:
    """The int32 with the bits of an unsigned 32-bit word."""
    return word - (1 << 32) if word >= 1 << 31 else word
