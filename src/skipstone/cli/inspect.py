"""skipstone inspect"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as o

if TYPE_CHECKING:
    from ..hf.facts import Facts
    from ..text.locate import ModelSource


def inspect(
    model: Annotated[
        str, typer.Argument(help="A short name, a folder, a GGUF file, a hub id or an adapter's folder.")
    ] = "smollm2-135m",
    check: Annotated[bool, typer.Option("--check", help="Load it and compare our pass with the model's own.")] = False,
    dtype: o.Dtype = "auto",
    weights: o.Weights = "auto",
    device: o.Device = "auto",
    cache: o.Cache = None,
    offline: Annotated[bool, typer.Option("--offline", help="Make no network call.", rich_help_panel="Model")] = False,
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Tell what a model is made of and what it takes, without reading its weights.

    Of a hub id all files are fetched first, weights too.
    """
    from ..hf.facts import inspect_folder
    from ..hf.prepare import check_weights
    from ..text.locate import Finder
    from ..text.progress import to_stderr

    source = Finder(to_stderr, cache, offline).source(model)
    facts = inspect_folder(source.folder, adapters=source.adapters, dtype=dtype, device=device)
    check_weights(weights)
    checked = _check(source, dtype, device, weights) if check else {}
    if as_json:
        print(json.dumps({"model": model, **facts.to_json(), **checked}))
    else:
        _print(model, facts)
        for name, value in checked.items():
            _line(name.replace("_", " "), value if isinstance(value, str) else _said(value))


def _check(source: ModelSource, dtype: str, device: str, weights: str) -> dict[str, Any]:
    """Parity of the loaded model. Raises ParityError and what else loading raises."""
    from ..hf.load import load_folder

    loaded = load_folder(source.folder, adapters=source.adapters, dtype=dtype, device=device, weights=weights)
    windows = [window for window in loaded.network.windows if window is not None]
    path = {"path": loaded.path, "packed_as": loaded.network.weights}
    return {"parity_gap": loaded.parity_gap, **path, "windows_measured": windows, "notes": loaded.notes}


def _said(value: Any) -> str:
    if isinstance(value, float):
        rounded = "our pass is the model's own" if value < _SAME else "rounding of the weights included"
        return f"{value:.1e} of the largest logit: {rounded}"
    return "; ".join(map(str, value)) if value else "none"


def _print(model: str, facts: Facts) -> None:
    print(f"{model}: {facts.model_class}, {facts.layers} layers, {_count(facts.parameters)} parameters\n")
    _table(facts)
    for name, text in _lines(facts).items():
        _line(name, text)


def _line(name: str, text: str) -> None:
    print(f"{name:<16}  {text}")


def _table(facts: Facts) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("part", box=None, pad_edge=False)
    for heading in ("layers", "parameters", "share", "read at a step"):
        table.add_column(heading, justify="right")
    for part in facts.parts:
        share = f"{part.count / facts.parameters:.1%}"
        table.add_row(part.kind, str(part.layers or ""), f"{part.count:,}", share, f"{part.active:,}")
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    if facts.tied:
        print("The embedding is the LM head, too.")
    print()


def _lines(facts: Facts) -> dict[str, str]:
    return {
        "folder": facts.folder,
        "weights": _weights(facts),
        "keys, values": _keys(facts),
        "LM head": f"{facts.head_share:.1%} of the weights that a decode step reads ({_bytes(facts.memory.step)})",
        "vocabulary": _vocabulary(facts),
        "ends of text": ", ".join(f"{token} {text}" for token, text in facts.vocabulary.eos.items()) or "none known",
        "chat template": "yes" if facts.vocabulary.chat_template else "no",
        "context": _context(facts),
        "layers": _wiring(facts),
        "quantised": facts.quantised or "no",
        "trained exits": ", ".join(map(str, facts.exits)) or "none recorded",
        "adapters": ", ".join(facts.adapters) or "none",
    }


def _weights(facts: Facts) -> str:
    memory, kept = facts.memory, "quantised" if facts.quantised else facts.dtype_in_memory
    in_files = f"{facts.dtype_in_files}, {_bytes(memory.files)} in the files"
    return f"{in_files}; {kept}, {_bytes(memory.weights)} in memory before packing"


def _keys(facts: Facts) -> str:
    token = facts.memory.token
    if token is None:
        return "not known before loading"
    return f"{token:,} bytes a token, {_bytes(token * facts.attention.context)} for a text as long as the context"


def _vocabulary(facts: Facts) -> str:
    vocabulary = facts.vocabulary
    padded = vocabulary.model - vocabulary.tokenizer
    spare = f", {padded:,} of them padding" if padded > 0 else ""
    lost = f"; the tokenizer knows {-padded:,} more, which the model does not" if padded < 0 else ""
    return f"{vocabulary.model:,} tokens{spare}{lost}"


def _context(facts: Facts) -> str:
    attention = facts.attention
    scaling = attention.rotary.get("rope_type", attention.rotary.get("type", "default")) or "default"
    factor = f" × {attention.rotary['factor']}" if "factor" in attention.rotary else ""
    rotary = f"{attention.context:,} tokens; rotary scaling: {'none' if scaling == 'default' else scaling}{factor}"
    if attention.window is None:
        return f"{rotary}; no sliding windows"
    return f"{rotary}; sliding window of {attention.window:,} in {attention.windowed_layers} layers"


def _wiring(facts: Facts) -> str:
    from ..hf.anatomy import shape_of

    why = "by the names of its parts" if facts.wirings_tried > 1 else "as its model type is known to be"
    return f"{shape_of(facts.wiring)}, {why}; parity is checked at load (--check says which path is taken)"


def _count(number: int) -> str:
    for unit, size in (("billion", 1e9), ("million", 1e6), ("thousand", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def _bytes(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} bytes"


_SAME = 2e-3  # above it weights have lost digits
