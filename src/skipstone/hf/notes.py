"""What a user would not expect of a loaded model, a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .adapters import Adapter
from .anatomy import shape_of
from .checkpoint import Checkpoint
from .families import wirings_of
from .fused import FusedNetwork
from .network import HFNetwork
from .placing import moved_in
from .quantised import own_modules
from .reason import shown
from .stored import main_dtype
from .trained import exits_of, trained_exits


def notes_on(
    checkpoint: Checkpoint, network: HFNetwork | FusedNetwork, dtype: str, adapters: Sequence[Adapter] = ()
) -> list[str]:
    """``dtype`` as asked for: a loss of digits is told where nobody asked for it."""
    found = [
        _text_only(network.model),
        _narrowed(checkpoint, network) if dtype == "auto" else "",
        moved_in(network.model),
        _generic(network.model),
        _found_out(network),
        _exits(checkpoint, adapters),
    ]
    return [note for note in found if note]


def _text_only(model: Any) -> str:
    wrapper = model.config.get_text_config() is not model.config
    return f"a {model.config.model_type} model takes text only here" if wrapper else ""


def _narrowed(checkpoint: Checkpoint, network: HFNetwork | FusedNetwork) -> str:
    on_disk, in_memory = main_dtype(checkpoint.tensors), str(network.dtype).removeprefix("torch.")
    wider = in_memory == "float64" or (in_memory == "float32" and on_disk != "float64")
    if on_disk == in_memory or wider or getattr(network.model, "hf_quantizer", None) is not None:
        return ""
    return f"weights are {on_disk} in the files and {in_memory} in memory"


def _generic(model: Any) -> str:
    why = own_modules(model)
    return f"generic path: {why}, so the model's own linears run" if why else ""


def _found_out(network: HFNetwork | FusedNetwork) -> str:
    likeliest = wirings_of(network.layers[0], network.config)[0]
    if network.wiring == likeliest:
        return ""
    return f"how its layers add up was found by trying: {shape_of(network.wiring)}, accepted by parity"


def _exits(checkpoint: Checkpoint, adapters: Sequence[Adapter]) -> str:
    exits = exits_of(checkpoint.folder, checkpoint.config, adapters)
    if not exits:
        return ""
    if not trained_exits(checkpoint.config) and not any(adapter.exits for adapter in adapters):
        return f"by its name it was trained for early exits at every layer, 1 to {exits[-1]}"
    where = "adapter_config.json" if any(adapter.exits for adapter in adapters) else "config.json"
    return f"{where} records trained exits: layers {', '.join(map(str, exits))}"


def notes_on_generation(settings: Mapping[str, Any]) -> list[str]:
    """What a generation_config asks for beyond what `generate` takes from it, and what would change texts."""
    asked = [f"{name}={shown(settings[name])}" for name in _NOT_SERVED if settings.get(name) not in _ASKS_NOTHING]
    if not asked:
        return []
    return [f"its generation_config asks for {', '.join(asked)}: not served here, but by skipstone.decode"]


_ASKS_NOTHING: tuple[Any, ...] = (None, 0, 1, 1.0, False, [], {})
_NOT_SERVED = (
    *("no_repeat_ngram_size", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
    *("typical_p", "epsilon_cutoff", "eta_cutoff", "min_length", "min_new_tokens"),
    *("forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty"),
)
