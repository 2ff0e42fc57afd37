"""Models' own forward passes with layers left out by some samples, and hidden states handed out."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from skipstone.errors import PlanError, TrainingError, UnsupportedModel, UsageError
from skipstone.hf.body import body_of
from skipstone.testing.tiny import tiny_model
from skipstone.train import EarlyExitLoss, LayerDropout, exits
from skipstone.train.dropout import Keep

TYPES = ["llama", "qwen2", "gemma2", "gpt_neox"]
L, B, N = 3, 4, 9
TOKENS = torch.randint(64, (B, N), generator=torch.Generator().manual_seed(0))
PADDED = torch.ones(B, N, dtype=torch.long)
PADDED[1, 4:] = 0
PADDED[3, 6:] = 0


def _model(model_type: str = "llama", **config: Any) -> Any:
    without = {"attention_dropout": 0.0, "hidden_dropout": 0.0}
    return tiny_model(model_type, layers=L, **without, **config).train()


def _keep(*dropped: tuple[int, int]) -> Keep:
    """All samples but the given (layer, sample)."""
    return lambda layer, batch: torch.tensor([(layer, sample) not in dropped for sample in range(batch)])


def _run(model: Any, keep: Keep | None = None, tokens: Tensor = TOKENS, **inputs: Any) -> dict[int, Tensor]:
    """[B, N, H] after every layer."""
    with exits(model, range(L), keep) as hidden:
        model(tokens, logits_to_keep=1, **inputs)
    return hidden


def _naive(model: Any, labels: Tensor, **inputs: Any) -> Tensor:
    """The loss of the model's own logits, in the numbers it has them in."""
    logits = model(TOKENS, use_cache=False, **inputs).logits[:, :-1].flatten(0, 1)
    return F.cross_entropy(logits, labels[:, 1:].flatten())


def _assert_same(ours: Any, theirs: Any, error: float = 1e-10) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=error)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("model_type", [*TYPES, "granite", "cohere"])
def test_without_dropout_the_last_exit_has_the_loss_and_the_gradients_of_the_plain_model(model_type: str, tied: bool):
    model = _model(model_type, tie_word_embeddings=tied)
    labels = TOKENS.masked_fill(PADDED == 0, -100)
    hidden = _run(model, LayerDropout(L, 0.0, seed=0).at(step=3, micro_batch=0), attention_mask=PADDED)
    ours = EarlyExitLoss.of(model, chunk=5)(hidden, labels, {L - 1: 1.0}).total
    naive = _naive(model, labels, attention_mask=PADDED)
    parameters = list(model.parameters())
    _assert_same([ours], [naive])
    in_32_bits = model_type != "gpt_neox"  # the gradients of these models' norms
    gradients = [torch.autograd.grad(loss, parameters) for loss in (ours, naive)]
    _assert_same(*gradients, error=1e-6 if in_32_bits else 1e-10)


@pytest.mark.parametrize("model_type", TYPES)
def test_every_exit_is_the_residual_stream_the_model_reports(model_type: str):
    model = _model(model_type)
    reported = model(TOKENS, output_hidden_states=True).hidden_states
    hidden = _run(model)
    _assert_same([hidden[layer] for layer in range(L - 1)], reported[1:-1])
    _assert_same([EarlyExitLoss.of(model).head.norm(hidden[L - 1])], [reported[-1]])


@pytest.mark.parametrize("model_type", TYPES)
def test_a_layer_is_the_identity_for_the_samples_that_drop_it_and_itself_for_the_others(model_type: str):
    model = _model(model_type)
    plain, hidden = _run(model, attention_mask=PADDED), _run(model, _keep((1, 0), (1, 3)), attention_mask=PADDED)
    assert torch.equal(hidden[1][[0, 3]], hidden[0][[0, 3]])
    assert (torch.autograd.grad(hidden[1].sum(), hidden[0], retain_graph=True)[0][[0, 3]] == 1).all()
    _assert_same([hidden[layer][[1, 2]] for layer in range(L)], [plain[layer][[1, 2]] for layer in range(L)])


@pytest.mark.parametrize("model_type", TYPES)
def test_a_layer_that_all_drop_is_the_identity_and_does_not_run(model_type: str):
    model = _model(model_type)
    body_of(model)[1][1].register_forward_pre_hook(_must_not_run)
    hidden = _run(model, _keep(*[(1, sample) for sample in range(B)]))
    assert torch.equal(hidden[1], hidden[0])
    assert hidden[2].shape == hidden[1].shape


def _must_not_run(*_: Any) -> None:
    raise AssertionError("the layer ran")


@pytest.mark.parametrize("model_type", TYPES)
def test_dropped_samples_leave_the_batch_of_the_layer(model_type: str):
    model = _model(model_type)
    sizes: list[int] = []
    for layer in body_of(model)[1]:
        layer.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    _run(model, _keep((1, 0), (1, 3), (2, 2)), attention_mask=PADDED)
    assert sizes == [4, 2, 3]


@pytest.mark.parametrize("model_type", TYPES)
def test_what_a_sample_becomes_does_not_depend_on_the_layers_it_drops(model_type: str):
    model = _model(model_type)
    keep = _keep((1, 2))
    hidden = _run(model, keep)
    weights = list(body_of(model)[1][1].parameters())
    gradients = torch.autograd.grad(hidden[2][2].sum(), weights, retain_graph=True, allow_unused=True)
    assert not any(gradient is not None and gradient.any() for gradient in gradients)
    with torch.no_grad():
        for weight in weights:
            weight.mul_(3)
    changed = _run(model, keep)
    assert torch.equal(changed[2][2], hidden[2][2])
    assert not torch.allclose(changed[2][1], hidden[2][1])


@given(st.sampled_from(TYPES), st.integers(0, 50), st.integers(0, B - 1))
def test_a_sample_depends_on_no_other_whatever_is_dropped(model_type: str, step: int, sample: int):
    model, dropout = _model(model_type), LayerDropout(L, 0.9, seed=0)
    together = _run(model, dropout.at(step, 0), attention_mask=PADDED)
    mine = lambda layer, _: dropout.kept(step, layer, 0, B)[[sample]]  # noqa: E731
    one = slice(sample, sample + 1)
    alone = _run(model, mine, TOKENS[one], attention_mask=PADDED[one])
    read = PADDED[sample].bool()  # what padding turns into is nobody's business
    _assert_same([together[layer][sample][read] for layer in range(L)], [alone[layer][0][read] for layer in range(L)])


def _checkpointed(model: Any, reentrant: bool) -> None:
    enable: Callable[..., None] = getattr(
        model, "activation_checkpointing_enable", model.gradient_checkpointing_enable
    )  # its name since transformers 5.2x
    name = next(iter(inspect.signature(enable).parameters))
    enable(**{name: {"use_reentrant": reentrant}})
    model.enable_input_require_grads()


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("model_type", TYPES)
def test_gradient_checkpointing_changes_no_gradient(model_type: str, reentrant: bool):
    model, keep = _model(model_type), _keep((1, 0), (1, 3), (2, 2))

    def gradients() -> list[Tensor]:
        hidden = _run(model, keep, attention_mask=PADDED, use_cache=False)
        total = EarlyExitLoss.of(model)(hidden, TOKENS, {1: 0.3, 2: 0.7}).total
        model.zero_grad()
        total.backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    plain = gradients()
    _checkpointed(model, reentrant)
    _assert_same(gradients(), plain)


def test_with_gradient_checkpointing_a_layer_runs_again_for_the_samples_kept():
    model = _model()
    _checkpointed(model, reentrant=False)
    sizes: list[int] = []
    body_of(model)[1][1].mlp.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    hidden = _run(model, _keep((1, 0)), use_cache=False)
    hidden[2].sum().backward()
    assert sizes == [3, 3]


@pytest.mark.parametrize("model_type", TYPES)
def test_packed_documents_have_the_losses_they_have_alone(model_type: str):
    model, first = _model(model_type), 4
    documents = [TOKENS[:, :first], TOKENS[:, first:]]
    positions = torch.cat([torch.arange(first), torch.arange(N - first)]).expand(B, N)
    blocks = torch.tensor([0] * first + [1] * (N - first))
    mask = ((blocks[:, None] == blocks) & torch.ones(N, N).tril().bool()).expand(B, 1, N, N)
    mask = torch.zeros(B, 1, N, N, dtype=torch.float64).masked_fill(~mask, torch.finfo(torch.float64).min)
    given = {"full_attention": mask, "sliding_attention": mask} if model_type == "gemma2" else mask
    labels = torch.cat([F.pad(part[:, 1:], (1, 0), value=-100) for part in documents], 1)
    keep, loss, weights = _keep((1, 0), (2, 0), (2, 2)), EarlyExitLoss.of(model), {1: 0.3, 2: 0.7}
    packed = loss(_run(model, keep, attention_mask=given, position_ids=positions), labels, weights)
    alone = [loss(_run(model, keep, part), part, weights, divisor=packed.tokens).total for part in documents]
    _assert_same([packed.total], [sum(alone)])


def test_nothing_is_dropped_from_a_model_that_is_not_in_training():
    model = _model().eval()
    _assert_same(_run(model, _keep((1, 0), (2, 1))).values(), _run(model).values())


def test_afterwards_the_model_is_what_it_was_even_after_a_failure():
    model = _model()
    keys, layers = list(model.state_dict()), list(body_of(model)[1])
    with pytest.raises(RuntimeError, match="mid"), exits(model, [0], _keep()):
        assert list(body_of(model)[1]) != layers
        raise RuntimeError("mid")
    assert list(body_of(model)[1]) == layers
    assert list(model.state_dict()) == keys
    assert all(layer.training for layer in layers)


def test_parts_that_do_not_train_stay_so():
    model = _model()
    body_of(model)[1][1].mlp.eval()
    _run(model, _keep((1, 0)))
    assert not body_of(model)[1][1].mlp.training


def test_models_can_read_facts_off_layers_as_before():
    model = _model()
    layer = body_of(model)[1][1]
    layer.attention_type = "full_attention"
    with exits(model, [1], _keep()):
        standing_in: Any = body_of(model)[1][1]
        assert standing_in is not layer
        assert standing_in.attention_type == "full_attention"
        assert standing_in.self_attn is layer.self_attn
        with pytest.raises(AttributeError, match="nonsense"):
            _ = standing_in.nonsense


def test_only_the_exits_asked_for_are_kept():
    model = _model()
    with exits(model, {0, 2}) as hidden:
        assert not hidden
        model(TOKENS)
    assert sorted(hidden) == [0, 2]


class _Tupled(nn.Module):
    """A layer as older models have them."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.inner = layer

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return (self.inner(*args, **kwargs),)


def test_layers_that_return_tuples_do_so_when_dropped_too():
    from skipstone.train.dropping_layer import DroppingLayer, OutputForm

    layer, form = _Tupled(nn.Linear(2, 2)), OutputForm()
    seen: list[Tensor] = []
    half = DroppingLayer(layer, lambda batch: torch.arange(batch) > 0, seen.append, form)
    none = DroppingLayer(layer, lambda batch: torch.zeros(batch, dtype=torch.bool), seen.append, form)
    x = torch.ones(2, 3, 2)
    with pytest.raises(TrainingError, match="the first layer was dropped for all samples"):
        none(x)
    outputs = half(x), none(x)
    assert all(isinstance(output, tuple) for output in outputs)
    assert torch.equal(outputs[1][0], x)
    assert torch.equal(outputs[0][0][0], x[0])


@pytest.mark.parametrize("layer", [-1, L])
def test_exits_outside_the_model_are_refused(layer: int):
    with (
        pytest.raises(PlanError, match=rf"after layer {layer} of a model with layers 0\.\.2"),
        exits(_model(), [layer]),
    ):
        pass


def test_models_that_could_not_be_decoded_afterwards_are_refused():
    with (
        pytest.raises(UnsupportedModel, match=r"mamba.* cannot be taken back"),
        exits(tiny_model("mamba", layers=2), [0]),
    ):
        pass


def test_arguments_whose_samples_cannot_be_told_apart_are_refused():
    model = tiny_model("bloom", layers=L, n_head=4).train()  # [samples · heads, 1, N] of biases
    with pytest.raises(UnsupportedModel, match=r"for 4 samples: which part belongs to which is not known"):
        _run(model, _keep((1, 0)))


def test_drawn_samples_of_the_wrong_number_are_refused():
    with pytest.raises(UsageError, match=r"give bool \[4\]"):
        _run(_model(), lambda layer, batch: torch.ones(batch + 1, dtype=torch.bool))


def test_going_on_from_a_cache_is_refused():
    model = _model()
    cache = model(TOKENS).past_key_values
    name = "cache" if "cache" in inspect.signature(model.model.forward).parameters else "past_key_values"
    with pytest.raises(TrainingError, match="goes on from a cache"):
        _run(model, **{name: cache})
