"""The model that training starts from: a folder's weights, random ones, or the weights with LoRA adapters beside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ..errors import CheckpointError, UnsupportedModel, UsageError
from ..hf.adapters import WEIGHTS, Adapter, check_keys, is_adapter, read_adapter
from ..hf.body import body_of, check_architecture
from ..hf.checkpoint import check_numbers, read_checkpoint
from ..hf.head import head_of
from ..hf.json_file import read_json
from ..hf.network import context_of
from ..hf.quiet import quiet
from ..hf.reason import told_as
from ..hf.tokenizer import HFTokenizer
from ..hf.weights import load_weights
from .batch import packed_together
from .recipe import Recipe


def text_config_of(folder: Path) -> Any:
    """transformers' config of the text model in ``folder``. Raises CheckpointError, UnsupportedModel, UsageError."""
    if is_adapter(folder):
        raise UsageError(
            f"{folder} is an adapter: give the model it was made for, and the adapter as adapter to go on with it"
        )
    return _config(folder).get_text_config()


def check_fit(recipe: Recipe, config: Any, tokenizer: HFTokenizer) -> None:
    """Raises UsageError where rows are longer than the model's context, or the tokenizer is that of another model."""
    context = context_of(config)
    if recipe.length > context:
        raise UsageError(
            f"rows of {recipe.length} tokens in a model with a context of {context}: give a length up to it"
        )
    if tokenizer.size > config.vocab_size:
        raise UsageError(
            f"the tokenizer has {tokenizer.size} tokens and the model {config.vocab_size}: they do not belong "
            "together; give a folder with the model's own tokenizer"
        )


def doubts(folder: Path, tokenizer: HFTokenizer) -> Iterator[str]:
    """Where tokenizer and config.json name other special tokens, a line each: some models mean it.

    And where texts of a row see each other.
    """
    settings = read_json(folder / "config.json")
    if packed_together(kind := str(settings.get("model_type"))):
        yield f"model type {kind} cannot keep texts of a row apart: each sees those before it"
    inner = settings.get("text_config")
    settings = {**settings, **(inner if isinstance(inner, dict) else {})}
    for name in ("bos_token_id", "eos_token_id"):
        ours, theirs = getattr(tokenizer.tokenizer, name, None), settings.get(name)
        known = theirs if isinstance(theirs, list) else [theirs]
        if isinstance(ours, int) and theirs is not None and ours not in known:
            yield (
                f"{name} is {ours} in the tokenizer and {theirs} in config.json: if the tokenizer is that of another "
                "model, nothing good is learnt"
            )


def adapter_doubt(recipe: Recipe) -> str:
    """A line where the adapter says that it was made for another model than the recipe's; "" where it does not.

    Raises CheckpointError for a damaged adapter.
    """
    folder = Path(recipe.adapter).expanduser()
    if not recipe.adapter or not is_adapter(folder):
        return ""
    adapter = read_adapter(folder)
    theirs, ours = Path(adapter.base).name.lower(), Path(recipe.model).name.lower()
    if not theirs or theirs == ours or Path(adapter.base).expanduser().resolve() == Path(recipe.model).resolve():
        return ""
    return (
        f"the adapter {adapter} was made for {adapter.base}, and is trained further on {recipe.model}: where these are "
        "two models, nothing good is learnt"
    )


def start(recipe: Recipe, folder: Path) -> Any:
    """The model on the CPU in float32, what is to train of it so marked."""
    model = _random(folder, recipe.seed) if recipe.scratch else loaded(folder)
    check_architecture(model, model.config.get_text_config())
    adapted = _with_adapters(model, recipe) if recipe.lora_rank else model.requires_grad_(True)
    _freeze(model, recipe.frozen_layers)
    return adapted


def _freeze(model: Any, layers: int) -> None:
    """All that comes before the layers from ``layers`` on, adapters among it; a head tied to an embedding stays too."""
    if not layers:
        return
    body, found = body_of(model)
    head = head_of(model, body, model.config.get_text_config())
    behind = [*found[layers:], *(part for part in (head.norm, head.project, head.linear) if part is not None)]
    learning = {id(weight) for part in behind for weight in part.parameters()}
    learning -= {id(weight) for weight in model.get_input_embeddings().parameters()}
    for weight in model.parameters():
        if id(weight) not in learning:
            weight.requires_grad_(False)


def settings_digest(folder: Path) -> str:
    """Of what makes a model with random weights: config.json, but for who wrote it and where."""
    settings = read_json(folder / "config.json")
    kept = {name: value for name, value in settings.items() if name not in ("transformers_version", "_name_or_path")}
    return sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def loaded(folder: Path) -> Any:
    """The model of a folder on the CPU in float32. Raises UnsupportedModel where it is quantised."""
    model = load_weights(read_checkpoint(folder), torch.float32, torch.device("cpu"))
    if getattr(model, "hf_quantizer", None) is not None:
        raise UnsupportedModel(f"{folder} is quantised, and its weights cannot be trained: give the original model")
    return model


def _random(folder: Path, seed: int) -> Any:
    import transformers

    with quiet(), told_as(CheckpointError, f"no model can be made of {folder}"), torch.random.fork_rng():
        torch.manual_seed(seed)
        auto: Any = transformers.AutoModelForCausalLM
        return auto.from_config(_config(folder), trust_remote_code=False, dtype=torch.float32)


def _config(folder: Path) -> Any:
    import transformers

    settings = read_json(folder / "config.json")
    check_numbers(folder / "config.json", settings)
    kind = settings.get("model_type")
    if kind not in list(transformers.CONFIG_MAPPING):
        raise UnsupportedModel(f'model type "{kind}" is not known to transformers {transformers.__version__}')
    auto: Any = transformers.AutoConfig
    with quiet(), told_as(CheckpointError, f"{folder} cannot be loaded"):
        return auto.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _early(recipe: Recipe, value: int) -> dict[str, int]:
    """``value`` for the layers before the last trained exit, as peft's patterns have it."""
    if not recipe.lora_early_rank:
        return {}
    numbers = "|".join(map(str, range(max(recipe.exits))))
    return {rf".*\.(?:{numbers})\..*": value}


def _with_adapters(model: Any, recipe: Recipe) -> Any:
    if find_spec("peft") is None:
        raise UsageError("lora_rank takes peft: pip install 'skipstone[train]', or leave it out")
    from peft import get_peft_model

    settings = _ranks(recipe)
    unfit = f'no adapters fit model type "{model.config.model_type}"'
    with quiet(), told_as(UnsupportedModel, unfit), torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        adapted = get_peft_model(model, settings)
    if recipe.adapter:
        _go_on(adapted, Path(recipe.adapter).expanduser())
    return adapted


def _go_on(adapted: Any, folder: Path) -> None:
    """With what an adapter has learnt. Raises CheckpointError for no adapter, UsageError where it is another kind."""
    from peft import PeftConfig, set_peft_model_state_dict
    from safetensors.torch import load_file

    if not is_adapter(folder):
        raise CheckpointError(f"{folder} is no adapter folder: it has no adapter_config.json")
    adapter = read_adapter(folder)
    with quiet(), told_as(CheckpointError, f"the adapter {folder} cannot be read"):
        settings: Any = PeftConfig.from_pretrained(str(folder))
        weights = load_file(folder / WEIGHTS)
    _check_same(adapter, settings, adapted.peft_config["default"])
    with quiet(), told_as(CheckpointError, f"the adapter {folder} does not fit the model"):
        result = set_peft_model_state_dict(adapted, weights)
    check_keys(adapter, result)


def _check_same(adapter: Adapter, settings: Any, wanted: Any) -> None:
    """The recipe's ranks are the adapter's: weights of other shapes have no place."""
    if adapter.kind != "LORA":
        raise UsageError(f"{adapter} is no LoRA adapter: only these are trained further")
    for name in ("r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "use_dora"):
        theirs, ours = getattr(settings, name), getattr(wanted, name)
        if theirs != ours:
            told = f"the adapter {adapter.folder} has {name} {theirs}, the recipe {ours}"
            raise UsageError(f"{told}: give the ranks and exits that `skipstone train` made it with")


def _ranks(recipe: Recipe) -> Any:
    from peft import LoraConfig

    rank = recipe.lora_rank
    return LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        rank_pattern=_early(recipe, recipe.lora_early_rank),
        alpha_pattern=_early(recipe, 2 * recipe.lora_early_rank),
    )
