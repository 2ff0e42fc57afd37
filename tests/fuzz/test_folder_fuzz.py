"""However the settings of a model folder are spoilt: an error of ours in one line, or a model that passes parity."""

from __future__ import annotations

from pathlib import Path

import pytest
from folders import change
from fuzzing import HOSTILE, cases, obeys, rng_of, spoil_bytes, spoil_json, tokenizer_only, whole_model


def test_the_sound_folder_works(sound: Path, sharded: Path) -> None:
    assert obeys(lambda: whole_model(sound)) == obeys(lambda: whole_model(sharded)) == "works"
    assert obeys(lambda: tokenizer_only(sound)) == "works"


@cases(140)
def test_values_of_the_config(folder: Path, seed: int) -> None:
    spoil_json(folder / "config.json", rng_of("config.json", seed))
    obeys(lambda: whole_model(folder))


KEYS = [
    *(
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "hidden_size",
        "intermediate_size",
        "head_dim",
    ),
    *("vocab_size", "max_position_embeddings", "rms_norm_eps", "rope_parameters", "tie_word_embeddings", "hidden_act"),
    *(
        "model_type",
        "architectures",
        "dtype",
        "eos_token_id",
        "auto_map",
        "quantization_config",
        "transformers_weights",
    ),
    *(
        "attn_implementation",
        "experts_implementation",
        "rope_scaling",
        "layer_types",
        "sliding_window",
        "fusion_config",
    ),
    *("text_config", "is_encoder_decoder", "torch_dtype", "use_cache", "pretraining_tp", "attention_dropout"),
    *("generation_config", "custom_generate", "num_labels", "id2label", "chunk_size_feed_forward", "_name_or_path"),
]


@cases(100)
def test_hostile_values_of_the_keys_that_matter(folder: Path, seed: int) -> None:
    rng = rng_of("keys", seed)
    change(folder / "config.json", **{rng.choice(KEYS): rng.choice(HOSTILE) for _ in range(rng.choice([1, 1, 2]))})
    obeys(lambda: whole_model(folder))


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "x"])
@cases(6)
def test_rotary_scaling_of_every_kind(folder: Path, kind: str, seed: int) -> None:
    rng = rng_of(kind, seed)
    names = [
        *("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor", "attention_factor"),
        *("short_factor", "long_factor", "beta_fast", "beta_slow", "mscale", "partial_rotary_factor", "rope_theta"),
    ]
    parameters = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0}
    parameters |= {name: rng.choice(HOSTILE) for name in rng.sample(names, rng.randint(1, 5))}
    change(folder / "config.json", rope_parameters=parameters)
    obeys(lambda: whole_model(folder))


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
@cases(20)
def test_bytes_of_the_settings(folder: Path, name: str, seed: int) -> None:
    spoil_bytes(folder / name, rng_of(name, seed))
    obeys(lambda: whole_model(folder))


@cases(40)
def test_values_of_the_generation_config(folder: Path, seed: int) -> None:
    rng = rng_of("generation", seed)
    keys = ["eos_token_id", "bos_token_id", "temperature", "do_sample", "top_p", "top_k", "stop_strings", "max_length"]
    keys += ["repetition_penalty", "custom_generate", "assistant_early_exit", "cache_implementation", "x", "num_beams"]
    change(folder / "generation_config.json", **{k: rng.choice(HOSTILE) for k in rng.sample(keys, rng.randint(1, 3))})
    obeys(lambda: whole_model(folder))


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "tokenizer_config.json"]
)
@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "/nowhere", ".", "/etc", "config.json", "/proc/self/mem"])
def test_links_to_what_is_no_such_file(folder: Path, name: str, target: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to(target)
    obeys(lambda: whole_model(folder))
