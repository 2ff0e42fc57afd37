"""skipstone inspect: what a model is made of, told without reading its weights."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from commands import Run, assert_says
from folders import change, copy
from lora import adapted, needs_peft
from tiny_folder import save_tokenizer
from tiny_gguf import write_gguf

from skipstone.hf.load import load_folder

LLAMA_7B = {
    **{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "dtype": "float16", "vocab_size": 32000},
    **{"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32},
    **{"num_key_value_heads": 32, "max_position_embeddings": 4096, "tie_word_embeddings": False, "eos_token_id": 2},
}


def facts(run: Run, *argv: object) -> dict[str, Any]:
    result = run("inspect", "--json", *argv)
    assert result.code == 0, result.err
    told: dict[str, Any] = json.loads(result.out)
    return told


def test_the_figures_are_those_of_the_loaded_model(run: Run, folder: Path) -> None:
    told, network = facts(run, folder), load_folder(folder, weights="stock").network
    count = sum(weight.numel() for weight in network.model.parameters())
    assert told["parameters"] == sum(part["count"] for part in told["parts"]) == count
    cache = network.new_cache(1, 1)
    assert told["memory"]["token"] == sum(b.numel() * b.element_size() for b in (*cache.keys, *cache.values))
    assert told["memory"]["weights"] == 4 * count
    assert told["memory"]["files"] == 4 * count
    assert told["vocabulary"] == {
        "model": 269,
        "tokenizer": 269,
        "bos_id": 0,
        "eos": {"1": "<|end|>"},
        "chat_template": True,
    }
    assert (told["layers"], told["attention"]["context"], told["shape"]) == (4, 256, "serial")
    assert told["wiring"]["attn"] == network.wiring.attn


def test_a_decode_step_reads_all_but_the_embedding(run: Run, folder: Path) -> None:
    told = facts(run, folder)
    head = 269 * 32
    assert told["memory"]["head"] == 4 * head
    assert told["memory"]["step"] == told["memory"]["weights"] - 4 * head
    assert told["head_share"] == pytest.approx(head / (told["parameters"] - head))
    assert {part["kind"]: part["active"] for part in told["parts"]}["embedding"] == 0


def test_the_page_names_everything(run: Run, folder: Path) -> None:
    out = run("inspect", folder).out
    for says in (
        r"LlamaForCausalLM, 4 layers, 48.2 thousand parameters",
        r"attention\s+4\s+12,288\s+25\.5%\s+12,288",
        r"MLP\s+4\s+18,432",
        r"norms\s+4\s+288",
        r"LM head\s+8,608",
        r"weights +float32, 193 kB in the files; float32, 193 kB in memory",
        r"keys, values +512 bytes a token, 131 kB for a text as long as the context",
        r"LM head +21\.7% of the weights that a decode step reads",
        r"vocabulary +269 tokens$",
        r"ends of text +1 <\|end\|>",
        r"chat template +yes",
        r"context +256 tokens; rotary scaling: none; no sliding windows",
        r"layers +serial, by the names of its parts; parity is checked at load",
        r"quantised +no",
        r"trained exits +none recorded",
        r"adapters +none",
    ):
        assert_says(out, rf"(?m){says}")


def test_check_loads_the_model_and_compares(run: Run, folder: Path) -> None:
    told = facts(run, folder, "--check")
    assert told["parity_gap"] < 1e-5
    assert told["windows_measured"] == told["notes"] == []
    assert "our pass is the model's own" in run("inspect", folder, "--check").out


def test_without_check_no_weight_is_read(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("weights were read")

    monkeypatch.setattr("transformers.PreTrainedModel.from_pretrained", refuse)
    monkeypatch.setattr("safetensors.torch.load_file", refuse)
    assert run("inspect", folder).code == 0


def test_padding_of_the_vocabulary_is_told(run: Run, folder: Path, tmp_path: Path) -> None:
    small = copy(folder, tmp_path / "small")
    tokenizer = json.loads((small / "tokenizer.json").read_text())
    merge = tokenizer["model"]["merges"].pop()
    tokenizer["model"]["vocab"].pop("".join(merge))
    (small / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert_says(run("inspect", small).out, "269 tokens, 1 of them padding")


def test_what_the_settings_say_is_told(run: Run, folder: Path, tmp_path: Path) -> None:
    other = copy(folder, tmp_path / "other")
    rope = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    change(other / "config.json", skipstone_exits=[2, 3], rope_parameters=rope)
    change(other / "generation_config.json", eos_token_id=[1, 2])
    (other / "chat_template.jinja").unlink()
    out = run("inspect", other).out
    for says in (
        r"context +512 tokens; rotary scaling: linear × 2\.0",
        r"ends of text +1 <\|end\|>, 2 <\|user\|>",
        r"chat template +no",
        r"trained exits +2, 3",
    ):
        assert_says(out, says)


def test_sliding_windows_are_told(run: Run, tmp_path: Path) -> None:
    empty_model(tmp_path, {**LLAMA_7B, "model_type": "mistral", "num_key_value_heads": 8, "sliding_window": 4096})
    assert_says(run("inspect", tmp_path).out, "sliding window of 4,096 in 32 layers")


def test_seven_billion_parameters_are_inspected_in_a_moment(run: Run, tmp_path: Path) -> None:
    empty_model(tmp_path, LLAMA_7B)
    began = perf_counter()
    told = facts(run, tmp_path, "--dtype", "float16")
    assert perf_counter() - began < 20  # about one second where nothing else runs
    assert told["parameters"] == 6_738_415_616
    assert told["memory"]["files"] == told["memory"]["weights"] == 2 * 6_738_415_616
    assert told["memory"]["token"] == 2 * 32 * 2 * 4096
    assert told["vocabulary"]["model"] - told["vocabulary"]["tokenizer"] == 32000 - 269


def empty_model(folder: Path, config: dict[str, Any]) -> None:
    """A llama or mistral whose weights are a hole in a file."""
    H, W, V, L = (config[n] for n in ("hidden_size", "intermediate_size", "vocab_size", "num_hidden_layers"))
    KV = H // config["num_attention_heads"] * config["num_key_value_heads"]
    block = {
        **{f"self_attn.{name}_proj": [rows, H] for name, rows in (("q", H), ("k", KV), ("v", KV), ("o", H))},
        **{"mlp.gate_proj": [W, H], "mlp.up_proj": [W, H], "mlp.down_proj": [H, W]},
        **{"input_layernorm": [H], "post_attention_layernorm": [H]},
    }
    shapes = {"model.embed_tokens": [V, H], "lm_head": [V, H], "model.norm": [H]}
    shapes |= {f"model.layers.{n}.{name}": shape for n in range(L) for name, shape in block.items()}
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[f"{name}.weight"] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(folder / "model.safetensors", 8 + len(text) + at)
    (folder / "config.json").write_text(json.dumps(config))
    save_tokenizer(folder)


def test_experts_are_read_in_part(run: Run, tmp_path: Path) -> None:
    from skipstone.hf.quiet import quiet
    from skipstone.testing import tiny_network

    network = tiny_network("mixtral", vocab_size=269, layers=2, num_local_experts=4, num_experts_per_tok=1)
    with quiet():
        network.model.float().save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    parts = {part["kind"]: part for part in facts(run, tmp_path)["parts"]}
    assert parts["experts"]["active"] == parts["experts"]["count"] // 4 > 0


def test_a_gguf_file_is_inspected_as_it_would_be_run(run: Run, tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    result = run("inspect", tmp_path / "tiny.gguf", "--cache", tmp_path / "cache", "--offline")
    assert_says(result.out, r"LlamaForCausalLM, 2 layers")
    assert_says(result.out, r"weights +float16, .* in the files; float32")


@needs_peft
def test_adapters_are_named(run: Run, folder: Path, tmp_path: Path) -> None:
    adapted(folder).save_pretrained(tmp_path / "mine")
    result = run("inspect", tmp_path / "mine", "--check")
    assert_says(result.out, r"adapters +mine \(LORA, rank 4\)")
    assert_says(result.out, r"notes +adapter mine \(LORA, rank 4\) merged into the weights")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-model"], 'no model "no-such-model"'),
        (["--dtype", "float33"], 'dtype "float33" is not known'),
        (["--device", "gpu"], 'device "gpu" cannot be used'),
        (["--chek"], 'no such option --chek: did you mean "--check"'),
    ],
)
def test_what_cannot_be_inspected_is_told_why(run: Run, folder: Path, argv: list[str], says: str) -> None:
    given = argv if argv[0] == "no-such-model" else [str(folder), *argv]
    assert_says(run("inspect", *given).error, says)


def test_a_damaged_model_is_told_as_loading_would(run: Run, folder: Path, tmp_path: Path) -> None:
    spoilt = copy(folder, tmp_path / "spoilt")
    (spoilt / "model.safetensors").write_bytes(b"\0" * 9)
    assert_says(run("inspect", spoilt).error, r"model\.safetensors is truncated or damaged")
