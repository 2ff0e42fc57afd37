"""The recipe in miniature: a tiny Llama from scratch, once with it and once without, on the same texts in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from transformers import TrainerCallback

from ..errors import UsageError
from ..hf.quiet import quiet
from ..train.evaluate import Figures
from ..train.plot import agreement_svg
from ..train.recipe import Recipe
from ..train.run import train
from ..train.texts import Text, read_samples
from ..train.watch import Watch

WITHOUT, WITH = "without", "with"
_END = "<|end|>"


@dataclass(frozen=True)
class Small:
    """The model, and how long it is trained. Each step sees ``batch`` rows of ``length`` tokens."""

    layers: int = 6
    hidden: int = 128
    heads: int = 4
    vocabulary: int = 512
    length: int = 128
    batch: int = 16
    steps: int = 1600
    learning_rate: float = 3e-3
    eval_rows: int = 64

    @classmethod
    def quick(cls) -> Small:
        """Seconds in all; the figures mean nothing."""
        return cls(layers=4, hidden=32, heads=2, vocabulary=300, length=32, batch=2, steps=2, eval_rows=2)

    @property
    def middle(self) -> int:
        return self.layers // 2


@dataclass(frozen=True)
class Trained:
    """Figures of all exits on rows held out, and the seconds that training took."""

    figures: Figures
    seconds: float


@dataclass(frozen=True)
class Miniature:
    small: Small
    without: Trained
    with_recipe: Trained

    def to_json(self) -> dict[str, Any]:
        """Figures by arm; ``middle`` is agreement at half the layers."""
        arms = {WITHOUT: self.without, WITH: self.with_recipe}
        middle = {name: arm.figures.at(self.small.middle).agreement for name, arm in arms.items()}
        last = {name: arm.figures.last_loss for name, arm in arms.items()}
        seconds = {name: arm.seconds for name, arm in arms.items()}
        exits = {name: arm.figures.to_json()["exits"] for name, arm in arms.items()}
        told = {"middle_exit": self.small.middle, "middle_agreement": middle, "last_loss": last, "seconds": seconds}
        size = {"layers": self.small.layers, "hidden": self.small.hidden, "steps": self.small.steps}
        return {**told, "exits": exits, "tokens": self.without.figures.tokens, **size}

    def save(self, folder: Path) -> None:
        """``miniature.json``, and ``miniature.svg`` with both lines."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "miniature.json").write_text(json.dumps(self.to_json(), indent=1) + "\n")
        trained = range(2, self.small.layers)
        figures = (self.without.figures, self.with_recipe.figures)
        picture = agreement_svg(*figures, trained, ("without the recipe", "with it"))
        (folder / "miniature.svg").write_text(picture)


def run_miniature(data: Sequence[str | Path], small: Small, tell: Callable[[str], None]) -> Miniature:
    """Train both, of the same first weights. Raises UsageError where ``data`` hold no texts, or too few."""
    with TemporaryDirectory(prefix="skipstone-miniature-") as place:
        folder = Path(place) / "model"
        write_model(folder, _texts(data), small)
        arms = {
            name: _trained(recipe, folder, name, tell)
            for name, recipe in recipes(data, small, folder, Path(place)).items()
        }
    return Miniature(small, arms[WITHOUT], arms[WITH])


def recipes(data: Sequence[str | Path], small: Small, folder: Path, place: Path) -> dict[str, Recipe]:
    """By arm. The recipe: dropout that rises with the steps, and one early exit's loss at a time beside the last's."""
    recipe = Recipe(
        model=str(folder),
        data=tuple(map(str, data)),
        output=str(place / WITH),
        scratch=True,
        curriculum="rotational",
        period=small.layers - 1,
        p_max=0.1,
        e_scale=1.0,
        steps=small.steps,
        batch=small.batch,
        accumulation=1,
        length=small.length,
        learning_rate=small.learning_rate,
        warmup=min(100, small.steps // 10),
        weight_decay=0.1,
        save_every=small.steps,
        log_every=max(small.steps // 20, 1),
        eval_rows=small.eval_rows,
        device="cpu",
    )
    return {WITHOUT: replace(recipe, output=str(place / WITHOUT), p_max=0.0, e_scale=0.0), WITH: recipe}


def _trained(recipe: Recipe, folder: Path, name: str, tell: Callable[[str], None]) -> Trained:
    tell(f"training {name} the recipe, {recipe.steps} steps")
    began = perf_counter()
    trained = train(recipe, folder, watch=Watch(lambda line: tell(f"  {line}"), [_Steps(tell)]))
    return Trained(trained.after, perf_counter() - began)


class _Steps(TrainerCallback):
    """Tells how far a training is, as a line now and then."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self._tell(f"  step {state.global_step} of {state.max_steps}, loss {logs['loss']:.3f}")


def write_model(folder: Path, texts: Sequence[str], small: Small) -> None:
    """A folder to train from scratch: the model's settings, and a tokenizer learnt from ``texts``."""
    from transformers import LlamaConfig, PreTrainedTokenizerFast

    wrapped: Any = PreTrainedTokenizerFast
    config = LlamaConfig(
        vocab_size=small.vocabulary,
        hidden_size=small.hidden,
        intermediate_size=small.hidden * 8 // 3,
        num_hidden_layers=small.layers,
        num_attention_heads=small.heads,
        num_key_value_heads=small.heads,
        max_position_embeddings=max(512, small.length),
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    config.architectures = ["LlamaForCausalLM"]
    with quiet():
        config.save_pretrained(folder)
        learnt = _tokenizer(texts, small.vocabulary)
        wrapped(tokenizer_object=learnt, bos_token=_END, eos_token=_END).save_pretrained(folder)


def _tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """Bytes and the most frequent pairs of them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[_END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _texts(data: Sequence[str | Path]) -> list[str]:
    texts = [sample.text for sample in read_samples(data) if isinstance(sample, Text) and sample.text.strip()]
    if not texts:
        raise UsageError(f"{', '.join(map(str, data))}: no plain texts: give a text file, or JSONL with text")
    return texts
