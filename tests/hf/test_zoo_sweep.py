"""Every type of language model that transformers has is either run faithfully or refused; nothing in between.

All of them take a minute: `pytest -m full_zoo`. What is too large at its smallest, or needs more installed, is skipped.
"""

import pytest
from any_type import CannotBeSmall, any_model
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from skipstone.errors import ModelError
from skipstone.hf.fit import fit
from skipstone.hf.quiet import quiet
from skipstone.hf.selfcheck import parity_gap

# of every kind a few that no table names, and that are quick
QUICK = (
    "arcee",
    "flint",
    "fuyu",
    "lfm3",
    "llama4",
    "moshi",
    "olmo_hybrid",
    "qwen3_5_moe_text",
    "roberta",
    "xmod",
    "youtu",
)


def _faithful_or_refused(model_type: str) -> None:
    """Text longer than the sliding windows of these models, which the probe at load is not in real ones."""
    try:
        model = any_model(model_type)
    except CannotBeSmall as error:
        pytest.skip(str(error))
    with quiet():
        try:
            net, _ = fit(model)
        except ModelError:
            return
        assert parity_gap(net, [(7 + 31 * n) % net.vocab_size for n in range(40)]) <= 1e-6


@pytest.mark.parametrize("model_type", [name for name in QUICK if name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES])
def test_a_type_no_table_names_is_run_faithfully_or_refused(model_type: str):
    _faithful_or_refused(model_type)


@pytest.mark.full_zoo
@pytest.mark.parametrize("model_type", MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
def test_any_type_is_run_faithfully_or_refused(model_type: str):
    _faithful_or_refused(model_type)
