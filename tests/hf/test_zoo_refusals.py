"""What cannot be run layer by layer is refused with the reason, on one line, whatever it is."""

import re
from typing import Any

import pytest
import torch
import transformers
from any_type import CannotBeSmall, any_model
from torch import nn
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from versions import SINCE_5

from skipstone.errors import ParityError, UnsupportedModel
from skipstone.hf.fit import fit
from skipstone.hf.network import HFNetwork
from skipstone.hf.selfcheck import check_parity, parity_gap, probe_tokens
from skipstone.testing import tiny_network
from skipstone.testing.tiny import tiny_model

RECURRENT = "state cannot be taken back"
REFUSED = {
    "mamba": RECURRENT,
    "mamba2": RECURRENT,
    "rwkv": "is recurrent",
    "jamba": RECURRENT,
    "bamba": RECURRENT,
    "zamba2": RECURRENT,
    "falcon_h1": RECURRENT,
    "nemotron_h": RECURRENT,
    "recurrent_gemma": f"{RECURRENT}|adds up its parts",
    "qwen3_next": RECURRENT,
    "qwen3_5_text": RECURRENT,
    "minimax": RECURRENT,
    "lfm2": RECURRENT,
    "kimi_linear": RECURRENT,
    "gemma3n_text": "shares keys and values between layers",
    "gemma4_text": "shares keys and values between layers",
    "llama4_text": '"chunked_attention", which see neither all earlier tokens nor a sliding window',
    "deepseek_v32": '"indexed_attention", which see neither',
    "deepseek_v4": "compressed_attention",
    "doge": "makes its own masks",
    "gpt_neo": "makes its own masks",
    "bart": "attends to an encoder",
    "whisper": "attends to an encoder",
    "openai-gpt": "takes no cache",
    "longcat_flash": "takes no cache",
    "bert": "keeps no list of decoder layers",
    "xlnet": "",
    "modernbert-decoder": "adds up its parts",
    "dory": "differs from the model's own",
}


def _refusal(model: Any) -> str:
    with pytest.raises((UnsupportedModel, ParityError)) as caught:
        fit(model)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("model_type", [name for name in REFUSED if name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES])
def test_a_type_that_cannot_be_run_says_why(model_type: str):
    try:
        model = any_model(model_type)
    except CannotBeSmall as error:
        pytest.skip(str(error))
    assert re.search(REFUSED[model_type], _refusal(model))


def test_an_encoder_decoder_says_so():
    config = transformers.T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    assert "encoder-decoder" in _refusal(transformers.T5ForConditionalGeneration(config))


def test_a_model_without_lm_head_says_so():
    assert "no LM head" in _refusal(tiny_model("llama", layers=1).model)


def test_an_attention_that_takes_no_masks_says_which_does():
    model = tiny_model("llama", layers=1)
    model.config._attn_implementation_internal = "flash_attention_2"
    assert 'attn_implementation="sdpa"' in _refusal(model)


class _Squared(nn.Module):
    """An MLP nobody has seen before: one that looks back."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1)


def test_a_layer_that_is_not_what_its_names_say_is_found_out_by_parity():
    model = tiny_model("llama", layers=2)
    model.model.layers[1].mlp = _Squared()
    assert "differs from the model's own" in _refusal(model)


class _Broken(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise StopIteration("of all things")


def test_whatever_else_a_model_raises_becomes_an_error_of_ours():
    model = tiny_model("llama", layers=1)
    model.model.layers[0].mlp = _Broken()
    assert "cannot be run layer by layer" in _refusal(model)


def test_running_out_of_memory_is_not_the_models_fault():
    model = tiny_model("llama", layers=1)
    model.model.layers[0].mlp.forward = lambda x: torch.empty(1 << 46)
    with pytest.raises(RuntimeError, match="memory"):
        fit(model)


@pytest.mark.skipif(not SINCE_5, reason="patches what transformers 5 calls masks")
def test_a_window_that_no_configuration_names_is_measured(monkeypatch: pytest.MonkeyPatch):
    """A short probe at load could not see it."""
    from transformers.masking_utils import create_sliding_window_causal_mask
    from transformers.models.llama import modeling_llama

    def masks(config: Any, **arguments: Any) -> Any:
        config.sliding_window = 40
        return create_sliding_window_causal_mask(config=config, **arguments)

    monkeypatch.setattr(modeling_llama, "create_causal_mask", masks)
    net = tiny_network("llama", layers=2)
    assert len(probe_tokens(net)) < 40
    assert net.windows == [40, 40]
    assert parity_gap(net, [(7 + 31 * n) % 64 for n in range(60)]) <= 1e-9


@pytest.mark.skipif(not SINCE_5, reason="patches what transformers 5 calls masks")
def test_chunks_that_no_configuration_names_are_not_taken_for_a_window(monkeypatch: pytest.MonkeyPatch):
    from transformers.masking_utils import create_chunked_causal_mask
    from transformers.models.llama import modeling_llama

    def masks(config: Any, **arguments: Any) -> Any:
        config.attention_chunk_size = 40
        return create_chunked_causal_mask(config=config, **arguments)

    monkeypatch.setattr(modeling_llama, "create_causal_mask", masks)
    assert "neither all earlier tokens nor a sliding window" in _refusal(tiny_model("llama", layers=2))


def test_a_scale_that_sets_in_far_out_is_seen_at_load():
    """The probe at position 0 could not see it, either."""
    model = tiny_model("llama", layers=2)
    own = model.model.layers[1].self_attn.forward

    def late(hidden_states: torch.Tensor, **arguments: Any) -> Any:
        far = arguments.get("position_ids", torch.zeros(1))[..., None] > 200
        return own(hidden_states=hidden_states * torch.where(far, 2.0, 1.0), **arguments)

    model.model.layers[1].self_attn.forward = late
    network = HFNetwork(model)
    assert check_parity(network) <= 1e-9
    network.arguments.pop("position_ids")
    assert parity_gap(network, probe_tokens(network)) <= 1e-9
    with pytest.raises(ParityError):
        check_parity(network)
