"""The contract of ``Network``, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from ..cache import KVCache
from ..network import Network, Run
from ..plan import LayerPlan
from ..tree import NO_PARENT, Topology
from .claim import claim

# relative to the largest number compared; half precisions differ by kernel shape alone
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 3e-2, torch.bfloat16: 1e-1}
_TREE = Topology((-1, 0, 1, 0, 3, 1, 3, 5))  # branches that part and part again; children away from their parents
_LENGTH = 16
Same = Callable[[Tensor, Tensor, str], None]  # raises the sentence unless both are equal within rounding


def check_network(network: Network, *, tolerance: float | None = None) -> None:
    """Raise AssertionError with a sentence if ``network`` breaks the contract of ``Network``.

    ``tolerance``, relative to the largest number compared, is that of the dtype unless given (a model may round parts
    of its work to float32). Whether it computes what its model computes is another question: compare with the model's
    own forward pass.
    """
    limit = _TOLERANCE.get(network.dtype, 1e-1) if tolerance is None else tolerance
    for check in _CHECKS:
        check(network, partial(_same, limit))


def _chunks_do_not_matter(network: Network, same: Same) -> None:
    whole = _chain(network, _fresh(network), _tokens(network), 0)
    cache = _fresh(network)
    parts = [_chain(network, cache, _tokens(network)[start : start + 5], 0) for start in range(0, _LENGTH, 5)]
    same(torch.cat(parts, dim=1), whole, "a prompt taken in chunks differs from the prompt taken at once")


def _branches_do_not_see_each_other(network: Network, same: Same) -> None:
    tokens = _tokens(network, len(_TREE), shift=3)
    tree = _verify(network, _prefilled(network, [_LENGTH]), _TREE, [tokens]).hidden
    for node in range(len(_TREE)):
        path = [0, *_TREE.path(node)]
        alone = _chain(network, _prefilled(network, [_LENGTH]), [tokens[n] for n in path], 0)
        same(tree[:, path], alone, f"node {node} of a tree differs from the chain that leads to it")


def _rows_do_not_see_each_other(network: Network, same: Same) -> None:
    lengths, tokens = [_LENGTH, 1, 7], [_tokens(network, len(_TREE), shift=s) for s in range(3)]
    cache = _prefilled(network, lengths)
    for rows in ([0, 1, 2], [2, 0]):
        together = _verify(network, cache, _TREE, [tokens[row] for row in rows], rows).hidden
        for b, row in enumerate(rows):
            alone = _verify(network, _prefilled(network, [lengths[row]]), _TREE, [tokens[row]]).hidden
            same(together[b : b + 1], alone, f"row {row} of rows {rows} differs from the same row alone")


def _scratch_leaves_no_trace(network: Network, same: Same) -> None:
    clean, dirty = _prefilled(network, [_LENGTH, 3]), _prefilled(network, [_LENGTH, 3])
    large = 1e3 if network.dtype.itemsize < 4 else 1e6
    for buffer in (*dirty.keys, *dirty.values):
        for row, length in enumerate(dirty.lengths):
            buffer[row, :, length:] = large
    tokens = [_tokens(network, len(_TREE))] * 2
    same(
        _verify(network, dirty, _TREE, tokens).hidden,
        _verify(network, clean, _TREE, tokens).hidden,
        "what lies in scratch slots changes the result",
    )


def _accepted_branches_become_text(network: Network, same: Same) -> None:
    tokens, path = _tokens(network, len(_TREE)), [0, 3, 6]
    cache = _prefilled(network, [_LENGTH])
    _verify(network, cache, _TREE, [tokens])
    cache.commit([0], [path])
    after = _chain(network, cache, [1], 0)
    plain = _prefilled(network, [_LENGTH])
    _chain(network, plain, [tokens[n] for n in path], 0)
    same(after, _chain(network, plain, [1], 0), "text after a committed branch differs from text after its tokens")


def _replays_see_their_prefix(network: Network, same: Same) -> None:
    cache = _fresh(network)
    once = _chain(network, cache, _tokens(network), 0)
    roots = Topology((NO_PARENT,) * 4)
    prefix = torch.tensor([[0, 5, 6, _LENGTH - 1]])
    tokens = torch.tensor([[_tokens(network)[n] for n in prefix[0].tolist()]], device=network.device)
    again = network.run(tokens, cache.place(roots, [0], prefix=prefix), cache, _full(network)).hidden
    same(again, once[:, prefix[0]], "committed tokens replayed over their prefix differ from their first run")


def _exits_resume(network: Network, same: Same) -> None:
    L, tokens = network.num_layers, [_tokens(network, len(_TREE))]
    full = _verify(network, _prefilled(network, [_LENGTH]), _TREE, tokens, taps=range(L + 1))
    same(full.taps[L], full.hidden, "the tap behind the last layer differs from the hidden states")
    for layer in range(L + 1):
        cache = _prefilled(network, [_LENGTH])
        placement = cache.place(_TREE, [0])
        early = network.run(torch.tensor(tokens, device=network.device), placement, cache, LayerPlan.until(layer))
        same(full.taps[layer], early.hidden, f"tap {layer} differs from the hidden states of an exit there")
        if layer:
            late = network.run(early.hidden, placement, cache, LayerPlan.rest(layer, L)).hidden
            same(late, full.hidden, f"an exit at layer {layer}, resumed, differs from a full run")


def _skipped_layers_do_nothing(network: Network, same: Same) -> None:
    L, tokens = network.num_layers, [_tokens(network, len(_TREE))]
    cache = _prefilled(network, [_LENGTH])
    before = [buffer.clone() for buffer in (*cache.keys, *cache.values)]
    nothing = _verify(network, cache, _TREE, tokens, plan=LayerPlan.skipping(L, range(L), range(L))).hidden
    embedded = _verify(network, cache, _TREE, tokens, plan=LayerPlan.until(0)).hidden
    same(nothing, embedded, "a plan that skips every sublayer changes the embeddings")
    unchanged = all(map(torch.equal, before, (*cache.keys, *cache.values)))
    claim(unchanged, "a plan that skips every attention writes keys or values")


def _logits_of_some_tokens(network: Network, same: Same) -> None:
    hidden = _verify(network, _prefilled(network, [_LENGTH]), _TREE, [_tokens(network, len(_TREE))]).hidden
    subset = torch.tensor([network.vocab_size - 1, 0, 1], device=network.device)
    every = network.logits(hidden)
    shape = (*hidden.shape[:2], network.vocab_size)
    claim(tuple(every.shape) == shape, f"logits have shape {tuple(every.shape)}, not {shape}")
    same(network.logits(hidden, subset), every[..., subset], "logits of a part of the vocabulary differ")
    narrow = network.narrow_head(subset)
    same(narrow(hidden), every[..., subset], "logits of a head for a part of the vocabulary differ")


_CHECKS: tuple[Callable[[Network, Same], None], ...] = (
    _chunks_do_not_matter,
    _branches_do_not_see_each_other,
    _rows_do_not_see_each_other,
    _scratch_leaves_no_trace,
    _accepted_branches_become_text,
    _replays_see_their_prefix,
    _exits_resume,
    _skipped_layers_do_nothing,
    _logits_of_some_tokens,
)


def _tokens(network: Network, count: int = _LENGTH, shift: int = 0) -> list[int]:
    return [(shift + 7919 * n) % network.vocab_size for n in range(1, count + 1)]


def _full(network: Network) -> LayerPlan:
    return LayerPlan.full(network.num_layers)


def _fresh(network: Network, rows: int = 1) -> KVCache:
    """An empty cache of prompts of _LENGTH tokens."""
    cache = network.new_cache(rows, _LENGTH + 2 * len(_TREE))
    for row in range(rows):
        cache.reset(row, _LENGTH)
    return cache


def _prefilled(network: Network, lengths: Sequence[int]) -> KVCache:
    """A cache whose row r holds ``lengths[r]`` tokens of its own."""
    cache = _fresh(network, len(lengths))
    for row, length in enumerate(lengths):
        _chain(network, cache, _tokens(network, length), row)
    return cache


def _chain(network: Network, cache: KVCache, tokens: Sequence[int], row: int) -> Tensor:
    """Run and commit tokens; hidden states [1, N, H]."""
    placement = cache.place(Topology.chain(len(tokens)), [row])
    hidden = network.run(torch.tensor([tokens], device=network.device), placement, cache, _full(network)).hidden
    cache.commit([row], [range(len(tokens))])
    return hidden


def _verify(
    network: Network,
    cache: KVCache,
    topology: Topology,
    tokens: Sequence[Sequence[int]],
    rows: Sequence[int] | None = None,
    *,
    plan: LayerPlan | None = None,
    taps: Sequence[int] = (),
) -> Run:
    """Run tokens [B][N] in scratch."""
    placement = cache.place(topology, rows if rows is not None else range(len(tokens)))
    return network.run(torch.tensor(tokens, device=network.device), placement, cache, plan or _full(network), taps)


def _same(limit: float, ours: Tensor, theirs: Tensor, sentence: str) -> None:
    scale = theirs.abs().max().clamp_min(1.0)
    gap = float((ours - theirs).abs().max() / scale)
    claim(gap <= limit, f"{sentence} (by {gap:.1e} of the largest number, at most {limit:.0e} is rounding)")
