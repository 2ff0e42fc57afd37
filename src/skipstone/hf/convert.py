"""One GGUF file into a model folder in float16 safetensors: the one rounding of weights that Skipstone ever does.

Whoever is compared with (plain decoding, transformers' own generate) loads this same folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..errors import CheckpointError
from .quiet import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def gguf_to_folder(gguf: Path, out: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write weights, tokenizer, chat template and generation settings of `gguf` into the folder `out`.

    Raises CheckpointError for a file that is damaged, of an unknown kind, or whose weights do not fit `dtype`.
    """
    with quiet():
        convert(gguf, out, dtype)


def convert(gguf: Path, out: Path, dtype: torch.dtype) -> None:
    try:
        pre = pre_tokenizer_name(gguf)
        model, tokenizer = read(gguf)
    except (OSError, ValueError, KeyError, IndexError, TypeError, NotImplementedError) as error:
        raise CheckpointError(f"{gguf}: not a readable GGUF model ({first_line(error)})") from error
    round_weights(model, dtype, gguf)
    repair_tokenizer(tokenizer, pre, model.config.max_position_embeddings)
    save(model, tokenizer, out)


def read(gguf: Path) -> tuple[Any, PreTrainedTokenizerBase]:
    """The model in float32 and its tokenizer, as transformers reads them."""
    import transformers

    load: Any = transformers  # whose from_pretrained methods are not typed
    where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    tokenizer = load.AutoTokenizer.from_pretrained(gguf.parent, **where)
    model = load.AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **where)
    return model, tokenizer


def round_weights(model: torch.nn.Module, dtype: torch.dtype, gguf: Path) -> None:
    """Raises CheckpointError when a weight is not finite in `dtype`."""
    model.to(dtype=dtype)
    lost = [name for name, weight in model.named_parameters() if not torch.isfinite(weight).all()]
    if lost:
        raise CheckpointError(f"{gguf}: weights are not finite in {dtype}: {', '.join(lost[:3])}")


def repair_tokenizer(tokenizer: PreTrainedTokenizerBase, pre: str, max_length: int) -> None:
    """Put right what transformers loses: it reads every byte-level GGUF tokenizer as GPT-2's.

    SmolLM's splits digits off one by one first. The difference shows in the spaces before a number ("x  12"), and a
    model that sees other tokens than it was trained on answers worse.
    """
    from tokenizers import pre_tokenizers

    tokenizer.model_max_length = max_length
    if pre == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_])


def pre_tokenizer_name(gguf: Path) -> str:
    """The name by which the file says how text is cut before byte-pair merges; empty when it says nothing."""
    from gguf import GGUFReader

    field = GGUFReader(gguf).get_field("tokenizer.ggml.pre")
    return "" if field is None else str(field.contents())


def save(model: Any, tokenizer: PreTrainedTokenizerBase, out: Path) -> None:
    # The weights are no longer quantised, and a folder that says so would be refused.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.generation_config._from_model_config = False  # its end-of-text ids are stated, not derived
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    tidy_tokenizer_settings(out / "tokenizer_config.json")


def tidy_tokenizer_settings(path: Path) -> None:
    """Name the class that takes tokenizer.json as it is, in every transformers version; others rebuild its parts.

    The rest only says how the file was read here.
    """
    settings = json.loads(path.read_text(encoding="utf-8"))
    kept = {name: value for name, value in settings.items() if name not in {"backend", "is_local", "local_files_only"}}
    settings = kept | {"tokenizer_class": "PreTrainedTokenizerFast"}
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
