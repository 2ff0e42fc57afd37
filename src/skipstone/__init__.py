"""Skipstone: large language models that generate faster with their own layers, token for token the same text.

import skipstone
model = skipstone.load("smollm2-135m", drafter="ngram")
print(model.generate("Once upon a time", max_new_tokens=64).text)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import SkipstoneError, UsageError

if TYPE_CHECKING:
    from .custom_generate.decoder import decode
    from .drafting import Drafter
    from .hf.load import LoadedModel
    from .network import Network
    from .text.language_model import LanguageModel

__version__ = "0.1.0"

__all__ = ["SkipstoneError", "__version__", "decode", "load"]


def __getattr__(name: str) -> Any:
    """``decode`` is there once it is asked for: it imports transformers, which takes seconds."""
    if name != "decode":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .custom_generate.decoder import decode

    return decode


def load(
    model: str | Path = "smollm2-135m",
    *,
    drafter: str | Drafter = "none",
    dtype: str = "auto",
    device: str = "auto",
    device_map: str | Mapping[str, Any] | None = None,
    weights: str = "auto",
    exact: bool = False,
    early_exit: int | None = None,
    cache: str | Path | None = None,
    offline: bool = False,
    progress: Callable[[str], None] | None = None,
) -> LanguageModel:
    """Load a model for generation: an alias, a Hugging Face folder, a GGUF file, a hub id or an adapter's folder.

    ``drafter`` is a name with options ("ngram", "exit:layer=8,depth=6", …); "none" is plain decoding. ``dtype`` is
    auto, float64, float32, bfloat16 or float16. ``device_map`` "auto" leaves in main memory what has no room on the
    device. ``weights`` auto, float32, float16 or bfloat16 packs them for the CPU; stock leaves them as transformers has
    them. ``exact`` gives every run one shape: slower, but drafted text is plain text to the last bit, near-ties too.
    ``early_exit`` E is LOSSY: the first E layers speak for the model, faster, and what they say is not its text; the
    model and all that comes of it are labelled (``lossy``). ``offline`` makes no network call. ``progress`` is told
    what takes long, and what is noteworthy of the model (by default on stderr). Raises ModelError, StoreError and
    UsageError (see skipstone.errors).
    """
    from .early_exit import check_early_exit
    from .hf.load import load_folder  # transformers takes seconds to import: only when a model is wanted
    from .plugins import read_spec
    from .store import cache_folders
    from .store.costs import machine_name, measured_costs
    from .store.shelf import PlanShelf
    from .text.language_model import LanguageModel
    from .text.locate import Finder
    from .text.progress import to_stderr

    if not isinstance(exact, bool):
        raise UsageError(f"exact={exact!r} is neither True nor False")
    if early_exit is not None:
        check_early_exit(early_exit)
    if isinstance(drafter, str):
        read_spec(drafter)  # a slip of the pen is told before anything is fetched or loaded
    tell, root = progress or to_stderr, None if cache is None else Path(cache)
    source = Finder(tell, root, offline).source(model)
    loaded = load_folder(
        source.folder,
        adapters=source.adapters,
        name=str(model),
        dtype=dtype,
        device=device,
        device_map=device_map,
        weights=weights,
    )
    network = _wrapped(loaded, exact, early_exit)
    if exact:
        tell("exact mode: proven on this machine; rows of a batch run one by one")
    label = f"{loaded.sizes} {loaded.path} {loaded.network.weights}"
    folders = cache_folders(root)
    costs = partial(measured_costs, network, label, folders, tell)
    plans = None
    if loaded.fingerprint is not None and early_exit is None:  # plans are for all layers of a model
        machine = partial(machine_name, network, loaded.network.weights)
        plans = PlanShelf(folders.plans, loaded.name, network.num_layers, loaded.fingerprint, machine, tell)
    ready = LanguageModel(loaded, drafter, costs, network, plans)
    for note in ready.notes:
        tell(note)
    return ready


def _wrapped(loaded: LoadedModel, exact: bool, early_exit: int | None) -> Network:
    """The network that runs: of all layers or of the first, and in runs of one shape where asked for."""
    from .early_exit import EarlyExitNetwork
    from .kernels.exact import ExactNetwork, check_exact

    network: Network = loaded.network
    if early_exit is not None:
        network = EarlyExitNetwork(network, early_exit, loaded.exits)
    if exact:
        network = ExactNetwork(network)
        check_exact(network)
    return network
