"""The parts of ``skipstone bench efficiency``: on tiny models that they run, on a known clock what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch
from costly import CostlyNetwork, known_ms
from laboratory import PROMPTS, CostlyModels, NoModels, TinyModels, tiny_lab

from skipstone.bench.efficiency import economize, memory, overhead, plain, planted_exit, planted_skip, sampling, verify
from skipstone.bench.efficiency.cost_model import measured_errors
from skipstone.bench.efficiency.decoding import Job, decode, theirs
from skipstone.bench.efficiency.lab import Effort, Lab
from skipstone.bench.efficiency.part import Absent, CannotMeasure, Figure, Part
from skipstone.bench.efficiency.planted_arms import Draft, bound, compare
from skipstone.bench.efficiency.registry import parts, select
from skipstone.bench.efficiency.report import Report, run_parts
from skipstone.bench.efficiency.traffic import Traffic, traffic_of
from skipstone.bench.planted import Shape, exit_form
from skipstone.bench.timing import Estimate
from skipstone.calibrate import measure
from skipstone.cost import CostModel, Step
from skipstone.errors import UsageError
from skipstone.kernels.probe import Kernel, StockLinear, kernel_for
from skipstone.plan import LayerPlan

# every report has these
KEYS = {
    "plain_ratio_float32",
    "plain_ratio_float16",
    "verify6_float32",
    "verify6_float16",
    "planted_exit_speedup",
    "planted_exit_speedup_whole",
    "planted_exit_speedup_float16",
    "planted_exit_model_share",
    "planted_skip_speedup",
    "planted_skip_model_share",
    "planted_skip_head_speedup",
    "planted_skip_head_model_share",
    "cost_model_error",
    "sampling_share",
    "sampling_share_drafted",
    "overhead_share",
    "overhead_share_1b",
    "assistant_early_exit_speedup",
    "economize_speedup",
    "rss_mb",
}
FACTS = {"threads", "torch", "transformers", "python", "cpu", "dtype", "model"}
QUICK = Effort.quick()


def costly_lab(network: CostlyNetwork) -> Lab:
    effort = replace(QUICK, nodes=(1, 2, 4, 6), between=(1, 3, 5, 7), contexts=(64, 256), calibration_s=30.0)
    return replace(tiny_lab(CostlyModels(network)), clock=network.clock, effort=effort)


# the whole


def test_every_figure_is_there_or_absent_with_a_reason() -> None:
    report = run_parts(parts(), parts(), tiny_lab()).to_json()
    assert {*KEYS, *FACTS, "intervals", "absent"} <= report.keys()
    assert json.loads(json.dumps(report)) == report
    assert "economize_speedup" in report["absent"]  # nobody asked for it
    assert "no such model" in report["absent"]["rss_mb"]
    missing = {key for key in KEYS if report[key] is None}
    assert missing == report["absent"].keys()
    heads = {"planted_skip_head_speedup", "planted_skip_head_model_share"}
    assert missing <= {*heads, "economize_speedup", "rss_mb"}
    assert all(low <= report[key] <= high for key, (low, high) in report["intervals"].items())


def test_a_part_that_fails_loses_no_other() -> None:
    said: list[str] = []
    lab = tiny_lab(NoModels(), said.append)
    report = run_parts(parts(), parts(), replace(lab, rivals=False))
    assert report.absent["plain_ratio_float32"] == "no model here: pull one"
    assert report.absent["verify6_float16"] == "no model here: pull one"
    assert report.absent["overhead_share"] == "no model here: pull one"
    assert report.values["planted_exit_speedup"] > 0
    assert report.values["planted_skip_speedup"] > 0
    assert "random" in report.values["planted_skip_model"]
    assert any("absent: no model here" in line for line in said)


def test_figures_that_were_not_asked_for_are_absent() -> None:
    part = Part("one", (Figure("a", ""), Figure("b", ""), Figure("c", "")), lambda lab: _findings())
    other = Part("two", (Figure("d", ""),), lambda lab: _findings())
    report = run_parts([part], [part, other], tiny_lab())
    assert report.values == {"a": 1.0, "b": None, "c": None, "d": None, "detail": {"x": 1}}
    assert report.intervals == {"a": [0.5, 2.0]}
    assert report.absent == {"b": "too cold", "c": "the part did not measure it", "d": "not asked for"}


def _findings() -> dict[str, Any]:
    return {"a": Estimate(1.0, 0.5, 2.0, 5), "b": Absent("too cold"), "detail": {"x": 1}}


def test_an_unexpected_error_is_a_reason_too() -> None:
    def fails(lab: Lab) -> dict[str, Any]:
        raise ZeroDivisionError("by\nzero")

    part = Part("one", (Figure("a", ""),), fails)
    assert run_parts([part], [part], tiny_lab()).absent == {"a": "ZeroDivisionError: by zero"}


def test_an_interrupt_keeps_what_was_measured_before() -> None:
    def pressed(lab: Lab) -> dict[str, Any]:
        raise KeyboardInterrupt

    known = [Part(name, (Figure(name, ""),), run) for name, run in [("a", lambda lab: {"a": 1}), ("b", pressed)]]
    report = Report({})
    with pytest.raises(KeyboardInterrupt):
        run_parts(known, known, tiny_lab(), report)
    assert report.values == {"a": 1, "b": None}
    assert report.absent == {"b": "interrupted"}


def test_parts_are_chosen_by_their_name_or_that_of_a_figure() -> None:
    known = parts()
    assert select([], known) == known
    assert [part.name for part in select(["verify6_float16", "memory"], known)] == ["verify", "memory"]
    with pytest.raises(UsageError, match=r'figure "verfy": did you mean "verify"\? \(known: .*planted_exit_speedup'):
        select(["verfy"], known)
    assert {key for part in known for key in part.keys} == KEYS
    assert all(figure.meaning for part in known for figure in part.figures)


# what the parts say, on a clock that only the network moves


def test_verification_costs_what_the_network_takes() -> None:
    network = CostlyNetwork()
    found = verify.ratio_of(verify.measured(network, costly_lab(network)), 6)
    full = LayerPlan.full(network.num_layers)
    one, six = (known_ms(Step(full, nodes, context=32), 30, 4800) for nodes in (1, 6))
    assert found.value == pytest.approx(six / one)


@pytest.mark.parametrize("form", ["exit", "skip"])
def test_where_only_the_network_takes_time_the_speedup_is_what_its_cycle_allows(form: str) -> None:
    network = CostlyNetwork()
    plan = LayerPlan.until(10) if form == "exit" else LayerPlan.skipping(30, range(1, 21), range(1, 21))
    spec = "exit:layer=10,depth=5" if form == "exit" else "skip:attn=1-20,mlp=1-20,depth=5"
    outcome = compare(network, Draft(spec, plan, 5), PROMPTS, costly_lab(network))
    assert outcome.mean_accepted == 6
    assert outcome.share.value == pytest.approx(1, abs=0.01)
    assert outcome.speedup.value == pytest.approx(6 / (5 * outcome.c + outcome.late + outcome.v), rel=0.01)
    assert (outcome.late > 0) == (form == "exit")


def test_what_the_engine_does_besides_is_missing_in_the_model_share() -> None:
    network = CostlyNetwork()
    lab = costly_lab(network)
    dear = replace(lab, clock=_Ticking(network))
    draft = Draft("exit:layer=10,depth=5", LayerPlan.until(10), 5)
    assert compare(network, draft, PROMPTS, dear).share.value == pytest.approx(1, abs=0.02)
    assert overhead.outside(network, Job(PROMPTS[0], 8), lab.clock) == pytest.approx(0, abs=1e-9)
    assert 0 < overhead.outside(network, Job(PROMPTS[0], 8), _Ticking(network)) < 0.5


class _Ticking:
    """Every look at the clock takes a while."""

    def __init__(self, network: CostlyNetwork) -> None:
        self.network = network

    def __call__(self) -> float:
        self.network.now += 1e-5
        return self.network.now


def test_sampling_adds_nothing_where_only_the_network_takes_time() -> None:
    network = CostlyNetwork()
    assert sampling.added(network, "none", PROMPTS, costly_lab(network)).value == pytest.approx(0, abs=0.01)


def test_texts_too_short_to_compare_sampling_on_give_no_figure() -> None:
    network = CostlyNetwork()
    lab = costly_lab(network)
    short = replace(lab, effort=replace(lab.effort, new_tokens=lab.effort.depth + 1))
    with pytest.raises(CannotMeasure, match="leave no steps to compare"):
        sampling.added(network, "none", PROMPTS, short)


def test_the_cost_model_is_judged_by_runs_it_has_not_seen() -> None:
    network = CostlyNetwork()
    lab = costly_lab(network)
    model = CostModel(measure(network, 30.0, network.clock))
    errors = measured_errors(network, model, lab)
    assert len(errors.refined) == len(errors.unrefined) == 6 * 4 * 2
    assert median(errors.refined) < 0.1
    assert median(errors.unrefined) < 0.1
    slower = CostlyNetwork(slowness=2.0)
    halved = measured_errors(slower, CostModel(model.table), replace(lab, clock=slower.clock))
    assert median(halved.unrefined) == pytest.approx(0.5, abs=0.1)
    assert median(halved.refined) < 0.1  # it learnt from the full runs


# bounds


def test_the_bound_of_an_exit_is_the_papers() -> None:
    L, E, d = 12, 3, 6
    traffic = Traffic((4,) * L, (6,) * L, head=0, row=0)
    draft = Draft("exit:layer=3,depth=5", LayerPlan.until(E), d - 1)
    assert bound(traffic, draft) == pytest.approx(d * L / (d * E + L - E))


def test_the_bound_of_a_skip_counts_the_rows_of_a_restricted_head() -> None:
    traffic = Traffic((1, 1), (1, 1), head=16, row=2)
    plan = LayerPlan.skipping(2, [0], [0])
    assert bound(traffic, Draft("", plan, 2)) == pytest.approx(3 * 20 / (2 * 18 + 20))
    assert bound(traffic, Draft("", plan, 2, head=4)) == pytest.approx(3 * 20 / (2 * 10 + 20))


def test_traffic_is_that_of_the_packed_weights() -> None:
    models = TinyModels()
    half, single = traffic_of(models.ours("float16")), traffic_of(models.ours("float32"))
    linears = 32 * (32 + 2 * 16) + 32 * 32 + 3 * 32 * 48
    kind = {"float32": 4, "float16": 2}
    assert single.attn[0] + single.mlp[0] == linears * kind.get(models.ours("float32").weights, 4)  # type: ignore[attr-defined]
    assert single.head == 64 * 32 * 4
    assert half.full <= single.full
    assert len(single.attn) == len(single.mlp) == 6


# parts on their own


@pytest.mark.parametrize("run", [plain.run, planted_exit.run, planted_skip.run])
def test_details_stand_beside_the_figures(run: Callable[[Lab], Any]) -> None:
    found = run(tiny_lab())
    json.dumps({key: value for key, value in found.items() if not isinstance(value, Estimate | Absent)})
    details = found.get("planted_exit") or found.get("planted_skip") or found["plain_tokens_per_second"]
    assert {"float32", "float16"} <= details.keys()


@pytest.mark.parametrize("part", [plain, planted_exit, planted_skip, verify])
def test_without_kernels_for_float16_its_figures_are_absent_and_others_there(
    part: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(kind: str) -> Kernel:
        return Kernel("stock", StockLinear, "no such thing") if kind == "float16" else kernel_for(kind)

    monkeypatch.setattr("skipstone.hf.prepare.kernel_for", lacking)
    found = part.run(tiny_lab(TinyModels()))
    figures = [figure.key for figure in part.part().figures]
    half = [key for key in figures if key.endswith("float16")]
    assert all(isinstance(found[key], Estimate) for key in figures if key not in [*half, "planted_skip_head_speedup"])
    assert all(
        found[key] == Absent("this machine has no kernel for float16 weights: they would run as stock") for key in half
    )
    json.dumps({key: value for key, value in found.items() if not isinstance(value, Estimate | Absent)})


def test_texts_go_on_past_an_end_of_text_token_on_both_sides() -> None:
    models = TinyModels()
    model = models.theirs()
    tokens = decode(models.ours("float32"), "none", Job(PROMPTS[0], 12), lambda: 0.0).tokens
    model.generation_config.eos_token_id = tokens[3]
    assert theirs(model, Job(PROMPTS[0], 12), lambda: 0.0) == 0


def test_a_text_that_ends_early_is_no_measurement() -> None:
    network = TinyModels().ours("float32")
    with pytest.raises(UsageError, match="gave 6 of 300 tokens"):
        decode(network, "none", Job([1] * 250, 300), lambda: 0.0)


def test_a_restricted_head_that_does_not_exist_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    real = planted_skip.compare

    def unknown(network: Any, draft: Draft, *rest: Any) -> Any:
        if draft.head is not True:
            raise UsageError('there is no option "head"')
        return real(network, draft, *rest)

    monkeypatch.setattr(planted_skip, "compare", unknown)
    found = planted_skip.run(tiny_lab())
    assert found["planted_skip_head_speedup"] == Absent('there is no option "head"')
    assert isinstance(found["planted_skip_speedup"], Estimate)


def test_a_model_of_alike_layers_is_built_cheaply_and_packed() -> None:
    found = overhead.run_1b(tiny_lab())
    assert 0 < found["overhead_share_1b"].value < 1


def test_memory_is_that_of_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"rss_mb": 900.0, "weights_mb": 270.0, "peak_mb": 950.0, "file_mb": 150.0}
    monkeypatch.setattr(memory, "child", lambda arguments, lab: told)
    found = memory.run(tiny_lab())
    assert (found["rss_mb"], found["rss_file_mb"]) == (900, 150)
    assert found["rss_limit_mb"] == pytest.approx(1.4 * 270 + 600)


def test_a_child_that_fails_gives_the_last_line_it_said() -> None:
    with pytest.raises(CannotMeasure, match=r"no\.such\.module ended with 1: .*No module named"):
        memory.child(["no.such.module"], tiny_lab())
    slow = replace(tiny_lab(), effort=replace(QUICK, timeout_s=0.05))
    with pytest.raises(CannotMeasure, match="was not done after 0 s"):
        memory.child(["timeit", "-n", "1", "import time; time.sleep(9)"], slow)


class Online(TinyModels):
    where: dict[str, Any] = {"model": "no such model", "cache": None, "offline": False}  # noqa: RUF012


def test_rivals_come_only_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotMeasure, match="--rivals"):
        economize.run(tiny_lab())
    asked: list[str] = []
    monkeypatch.setattr(economize, "_fetch", lambda folder: asked.append(folder.name))
    monkeypatch.setattr(economize, "child", lambda arguments, lab, environment: {"speedup": 1.5})
    found = economize.run(replace(tiny_lab(Online()), rivals=True, cache=tmp_path))
    assert (asked, found["economize_speedup"]) == (["economize-0.3.2"], 1.5)


def test_rivals_are_not_fetched_offline_and_used_where_they_were_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(economize, "_fetch", lambda folder: pytest.fail("fetched"))
    monkeypatch.setattr(economize, "child", lambda arguments, lab, environment: {"speedup": 1.5})
    lab = replace(tiny_lab(), rivals=True, cache=tmp_path)
    with pytest.raises(CannotMeasure, match=r"economize==0\.3\.2 is not in .*, and --offline forbids fetching it"):
        economize.run(lab)
    (tmp_path / "rivals" / "economize-0.3.2").mkdir(parents=True)
    assert economize.run(lab)["economize_speedup"] == 1.5


def test_a_rival_that_cannot_be_fetched_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        folder.mkdir()
        raise CannotMeasure("cannot be fetched")

    monkeypatch.setattr(economize, "_install", refuse)
    with pytest.raises(CannotMeasure, match="cannot be fetched"):
        economize.run(replace(tiny_lab(Online()), rivals=True, cache=tmp_path))
    assert list((tmp_path / "rivals").iterdir()) == []


def test_the_planted_exit_model_of_a_real_run_has_the_papers_bound() -> None:
    effort = Effort()
    assert (effort.shape, effort.exit_layer, effort.depth) == (Shape(), 3, 5)
    planted = exit_form(QUICK.shape, exit_layer=3)
    assert torch.equal(planted.model.model.layers[3].mlp.down_proj.weight, torch.zeros(32, 48))
