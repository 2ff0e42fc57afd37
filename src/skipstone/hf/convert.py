"""One GGUF file into a model folder in float16 safetensors: the one rounding of weights that Skipstone ever does.

Whoever is compared with (plain decoding, transformers' own generate) loads this same folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..errors import CheckpointError
from .gguf_header import GgufHeader, read_gguf_header
from .gguf_rope import restore_rope
from .quiet import quiet
from .reason import told_as
from .skeleton import check_sizes
from .weights import problem_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def gguf_to_folder(gguf: Path, out: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write weights, tokenizer, chat template and generation settings of `gguf` into the folder `out`.

    Raises CheckpointError for a file that is damaged, of an unknown kind, or whose weights do not fit `dtype`.
    """
    with quiet():
        with told_as(CheckpointError, f"{gguf}: not a readable GGUF model"):
            header = read_gguf_header(gguf)
            model, tokenizer = read(gguf, header)
            repair_tokenizer(tokenizer, header, _context(model))
            settle_bos(tokenizer, header)
        round_weights(model, dtype, gguf)
        save(model, tokenizer, out)


def read(gguf: Path, header: GgufHeader) -> tuple[Any, PreTrainedTokenizerBase]:
    """The model in float32 and its tokenizer, as transformers reads them; every weight from the file."""
    import transformers

    load: Any = transformers  # whose from_pretrained methods are not typed
    where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    tokenizer = load.AutoTokenizer.from_pretrained(gguf.parent, **where)
    config = load.AutoConfig.from_pretrained(gguf.parent, **where)
    restore_rope(config, header, gguf)
    _check_size(gguf, config, header)
    model, info = load.AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        config=config,
        dtype=torch.float32,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # told below, with names
        adapter_kwargs={"subfolder": "none"},
        **_whole(load),
        **where,
    )
    if problem := problem_of(info, model):
        raise CheckpointError(f"{gguf} {problem}: the weights do not belong to its settings")
    return model, tokenizer


def _whole(load: Any) -> dict[str, Any]:
    """Weights as numbers: some versions keep them packed where they find kernels for that, if need be on the hub."""
    settings = getattr(load, "GgufConfig", None)
    return {} if settings is None else {"quantization_config": settings(dequantize=True)}


def _check_size(gguf: Path, config: Any, header: GgufHeader) -> None:
    """Raises CheckpointError before what the file lacks is made up."""
    import transformers

    auto: Any = transformers.AutoModelForCausalLM
    with torch.device("meta"):
        check_sizes(gguf, header.count, auto.from_config(config))


def _context(model: Any) -> int:
    return int(model.config.get_text_config().max_position_embeddings)


def round_weights(model: torch.nn.Module, dtype: torch.dtype, gguf: Path) -> None:
    """Raises CheckpointError when a weight is not finite in `dtype`."""
    model.to(dtype=dtype)
    lost = [name for name, weight in model.named_parameters() if not torch.isfinite(weight).all()]
    if lost:
        raise CheckpointError(f"{gguf}: weights are not finite in {dtype}: {', '.join(lost[:3])}")


def repair_tokenizer(tokenizer: PreTrainedTokenizerBase, header: GgufHeader, max_length: int) -> None:
    """Put right what transformers loses: it reads byte-level GGUF tokenizers as GPT-2's, or (version 4) as Llama's.

    SmolLM's splits digits off one by one first. The difference shows in the spaces before a number ("x  12"), and a
    model that sees other tokens than it was trained on answers worse. Llama's drops the space a text begins with.
    """
    from tokenizers import decoders, pre_tokenizers

    tokenizer.model_max_length = max_length
    if header.metadata.get("tokenizer.ggml.model") == "gpt2":
        tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    if header.metadata.get("tokenizer.ggml.pre") == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_])


def settle_bos(tokenizer: PreTrainedTokenizerBase, header: GgufHeader) -> None:
    """BOS before raw text where the file says so, in every transformers version."""
    from tokenizers import processors

    bos, begin = tokenizer.bos_token, tokenizer("a").input_ids[:1]
    says = header.metadata.get("tokenizer.ggml.add_bos_token", header.metadata.get("tokenizer.ggml.model") == "llama")
    wanted, there = bool(says and bos), begin == [tokenizer.bos_token_id]
    if wanted and not there:
        mark = [(bos, tokenizer.bos_token_id)]
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=mark
        )
    elif there and not wanted:
        tokenizer.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)


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
