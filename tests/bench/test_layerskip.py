"""``skipstone bench layerskip``: what it says of a checkpoint, on tiny models and texts of our own."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from costly import CostlyNetwork
from folders import change, copy
from laboratory import PROMPTS, tiny_lab
from lora import adapted, needs_peft
from public_texts import STORIES, public_texts, story
from tiny_folder import tiny_folder

from skipstone.bench.efficiency.decoding import Decoded, Job
from skipstone.bench.efficiency.lab import Lab
from skipstone.bench.efficiency.models import RealModels
from skipstone.bench.efficiency.part import CannotMeasure
from skipstone.bench.efficiency.report import Report, run_parts
from skipstone.bench.layerskip import decoding, dynamic
from skipstone.bench.layerskip.checkpoint import OURS, Checkpoint, checkpoint_of
from skipstone.bench.layerskip.judged import Judged
from skipstone.bench.layerskip.registry import parts
from skipstone.bench.layerskip.setting import Setting, calibrated
from skipstone.bench.layerskip.sources import Sources, chat, first_sentences
from skipstone.bench.layerskip.trial import Extent, Trial
from skipstone.errors import ModelNotFound, UsageError
from skipstone.hf.tokenizer import HFTokenizer
from skipstone.text.locate import Finder
from skipstone.train.evaluate import ExitFigures, Figures

KEYS = {
    "exits",
    "last_layer_loss_before",
    "last_layer_loss_after",
    "wikitext_loss_before",
    "wikitext_loss_after",
    "best_exit",
    "best_depth",
    "best_width",
    "speedup",
    "acceptance_rate",
    "mean_accepted",
    "differences",
    "dynamic_speedup",
    "dynamic_over_best_fixed",
    "dynamic_worst_kind",
    "dynamic_search_share",
    "taps_share",
    "assistant_early_exit_speedup",
}
TEXTS = {"maths", "stories", "wikitext"}
FINDER = Finder(lambda line: None, offline=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return public_texts(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "base")


@pytest.fixture(scope="module")
def trained(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights, said to be trained for exit 3."""
    folder = copy(base, tmp_path_factory.mktemp("models") / "trained")
    return change(folder / "config.json", skipstone_exits=[3])


def trial_of(folder: Path, base: Path, data: Path, **extent: Any) -> tuple[Trial, Lab]:
    models = RealModels(str(folder), offline=True)
    checkpoint = checkpoint_of(str(folder), FINDER, str(base))
    return Trial(checkpoint, models, Sources(data), replace(Extent.quick(), **extent)), tiny_lab(models)


# the whole


def test_every_figure_of_a_checkpoint_is_there(trained: Path, base: Path, data: Path) -> None:
    trial, lab = trial_of(trained, base, data)
    known = parts(trial)
    report = run_parts(known, known, lab, Report({})).to_json()
    assert {key for part in known for key in part.keys} == KEYS
    assert report["absent"] == {}
    assert json.loads(json.dumps(report)) == report
    assert set(report["exits"]) == set(report["last_layer_loss_after"]) == TEXTS
    assert list(report["exits"]["maths"]["after"]) == ["2", "3", "4"]
    assert report["exits"]["maths"]["after"] == report["exits"]["maths"]["before"]  # nothing was trained here
    assert (
        report["wikitext_loss_after"] == report["wikitext_loss_before"] == report["last_layer_loss_after"]["wikitext"]
    )
    assert set(report["last_layer_same_choice"].values()) == {1.0}
    low, high = report["exit_intervals"]["maths"]["3"]
    assert low <= report["exits"]["maths"]["after"]["3"] <= high
    assert (report["best_exit"], report["differences"]) == (3, 0)
    assert (report["best_depth"], report["best_width"]) in trial.extent.shapes
    assert report["speedup"] > 0
    assert 0 <= report["acceptance_rate"] <= 1
    assert {"auto"} <= report["decoding"].keys() <= {"auto", "float16"}
    assert set(report["decoding"]["auto"]["heads"]) == {"auto", "64"}
    assert set(report["decoding"]["auto"]["heads"]["auto"]["by_text"]) == {"maths", "stories"}
    assert set(report["assistant_early_exit"]) == {"2 tokens", "4 tokens"}


def test_trained_exits_are_judged_on_more_rows_than_others() -> None:
    def figures(agreement: float, tokens: int, exits: tuple[int, ...]) -> Figures:
        found = tuple(ExitFigures(each, 1.0 + agreement, agreement) for each in exits)
        return Figures(found, tokens, tuple(range(tokens)))

    judged = Judged((figures(0.5, 30, (3, 6)), figures(0.8, 10, (3, 6))), few=figures(0.2, 10, (2, 3, 6)))
    assert judged.tokens == 40
    assert judged.agreement(3) == pytest.approx(0.575)
    assert judged.loss(3) == pytest.approx(1.575)
    assert judged.agreement(2) == 0.2
    assert judged.agreement_interval(3) == [0.5, 0.8]
    assert judged.same_choices(judged) == 1


def test_a_model_whose_base_is_not_there_still_decodes(trained: Path, data: Path, tmp_path: Path) -> None:
    trial, lab = trial_of(trained, tmp_path / "nowhere", data)
    known = [part for part in parts(trial) if part.name != "assistant"]
    report = run_parts(known, known, lab, Report({}))
    assert "nowhere" in report.absent["exits"]
    assert report.values["speedup"] > 0


# the checkpoint


def test_a_checkpoint_without_a_record_is_tried_at_its_early_exits(base: Path, data: Path) -> None:
    trial, _ = trial_of(base, base, data)
    assert trial.checkpoint.exits == ()
    assert trial._candidates(30) == [2, 4, 6, 8]
    assert trial.exits(30) == [2, 4, 6, 8, 10, 12, 16, 20, 24, 28]
    assert trial.exits(4) == [2]


def test_a_folder_started_from_the_default_model_unless_told(trained: Path) -> None:
    assert checkpoint_of(str(trained), FINDER) == Checkpoint(str(trained), "smollm2-135m", (3,))
    assert checkpoint_of(str(trained), FINDER, "other").base == "other"


@needs_peft
def test_an_adapter_says_what_it_started_from_and_which_exits_it_has(base: Path, tmp_path: Path) -> None:
    adapted(base).save_pretrained(tmp_path / "adapter")
    change(tmp_path / "adapter" / "adapter_config.json", skipstone_exits=[2], base_model_name_or_path=str(base))
    assert checkpoint_of(str(tmp_path / "adapter"), FINDER).exits == (2,)
    assert checkpoint_of(str(tmp_path / "adapter"), FINDER).base == str(base)


def test_where_ours_is_not_in_the_checkout_another_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound, match=r"no checkpoints/.*/adapter here: .* name another"):
        checkpoint_of(str(OURS), FINDER)


# the texts


def test_what_is_held_out_is_never_trained_on(data: Path) -> None:
    sources = Sources(data)
    assert sources.stories() == [story(number) for number in range(STORIES - 116)]
    assert sources.held_out_stories() == [story(number) for number in range(STORIES - 116, STORIES)]


def test_a_setting_is_not_found_by_the_prompts_it_is_measured_with(trained: Path, base: Path, data: Path) -> None:
    trial, _ = trial_of(trained, base, data, prompts=3)
    model = trial.models.language_model("auto")
    jobs = trial.jobs(model)
    assert [len(some) for some in jobs.values()] == [3, 3]
    tried = {tuple(model.encode(prompts[0])) for prompts in trial._prompts.values()}
    assert not tried & {tuple(job.prompt) for some in jobs.values() for job in some}


def test_prompts_have_the_form_of_the_texts_held_out(base: Path, data: Path) -> None:
    tokenizer = HFTokenizer.load(base)
    held_out = Sources(data).held_out(tokenizer)
    assert held_out["maths"][1] == "<|begin|><|user|>What is 1 and 1?<|assistant|>It is 2."
    assert first_sentences(held_out["stories"])[0] == "The dog number 4 had a hat."
    tokenizer.tokenizer.chat_template = None
    assert chat(tokenizer, "why", "so") == "why\nso"


def test_data_that_are_not_there_are_named_with_all_that_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"wikitext2_valid.txt cannot be read: No such file.*gsm8k_test_200.jsonl, tiny"
    ):
        Sources(tmp_path).wikitext()
    (tmp_path / "gsm8k_test_200.jsonl").write_text('{"prompt": "what"}\n')
    with pytest.raises(UsageError, match="a line lacks one of question, answer"):
        Sources(tmp_path).held_out_questions()
    (tmp_path / "gsm8k_test_200.jsonl").write_text("what?\n")
    with pytest.raises(UsageError, match="not JSON"):
        Sources(tmp_path).held_out_questions()
    (tmp_path / "tinystories_train.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(UsageError, match="cannot be read"):
        Sources(tmp_path).stories()


# decoding


def test_the_setting_is_the_fastest_of_those_tried() -> None:
    network = CostlyNetwork()  # whose drafts are always right
    model: Any = SimpleNamespace(network=network, costs=None)
    lab = replace(tiny_lab(), clock=network.clock)
    jobs = [Job(prompt, 24) for prompt in PROMPTS]
    found = calibrated(model, [15, 5], [(1, 1), (5, 1)], jobs, lab)
    assert (found.exit, found.depth) == (5, 5)
    assert max(found.tried, key=lambda key: found.tried[key]) == "5,5,1"
    assert found.tried["5,5,1"] > 1
    with pytest.raises(UsageError, match="no exit to decode with"):
        calibrated(model, [], [(1, 1)], jobs, lab)


def test_a_drafted_text_that_is_not_the_plain_one_is_a_difference(trained: Path, base: Path, data: Path) -> None:
    trial, lab = trial_of(trained, base, data)
    model = trial.models.language_model("auto")
    job = trial.jobs(model)["stories"][0]
    spec = Setting(3, 2).spec()
    plain = decoding.decoded(model, "none", job, lab.clock)
    head = decoding.Head([])
    decoding._judge(head, model, spec, job, (plain, decoding.decoded(model, spec, job, lab.clock)))
    assert (head.differences, head.near_ties) == (0, 0)
    spoilt = replace(plain, tokens=[*plain.tokens[:-1], plain.tokens[-1] + 1])
    decoding._judge(head, model, spec, job, (plain, spoilt))
    assert (head.differences, head.near_ties) == (1, 0)


def test_texts_that_end_at_once_are_no_measurement(
    trained: Path, base: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "_FEWEST", 1000)
    trial, lab = trial_of(trained, base, data)
    with pytest.raises(CannotMeasure, match="every text ended at once"):
        decoding.run(trial, lab)


def test_speedups_are_those_of_pairs_by_kind_of_text() -> None:
    def text(per_token: float) -> Decoded:
        return Decoded([1, 2], 9.0, per_token * 4, 4, SimpleNamespace())  # type: ignore[arg-type]

    pairs = [
        decoding.Pair(kind, text(slow), text(fast)) for kind, slow, fast in [("a", 2, 1), ("a", 6, 2), ("b", 1, 1)]
    ]
    head = decoding.Head(pairs)
    assert head.speedup("a").value == 2.5
    assert head.speedup("b").value == 1
    assert head.speedup().value == 2


@pytest.mark.parametrize(
    ("script", "last"), [("make_data.py", "wikitext2_valid.txt"), ("write_own.py", "self_instruct")]
)
def test_a_script_of_the_checkpoint_names_what_its_folder_lacks_before_it_loads_anything(
    script: str, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(__file__).parents[2] / "checkpoints" / "smollm2-135m-layerskip" / script
    if not file.exists():
        pytest.skip("the checkpoint is of the repository, not of the package")
    (tmp_path / "gsm8k_train.jsonl.gz").touch()
    monkeypatch.setattr("skipstone.load", lambda *_, **__: pytest.fail("loaded"))
    monkeypatch.setattr("sys.argv", [script, str(tmp_path), str(tmp_path / "out" / "own.jsonl")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(file), run_name="__main__")
    assert re.match(rf"error: .* lacks tinystories_train.*; needed are gsm8k_train.*{last}", str(ended.value.code))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("trained", "compared"), [((), (1,)), ((2, 3), (2, 3)), ((2, 3, 4, 5), (3,))])
def test_of_many_trained_exits_the_stream_is_decoded_with_the_fastest_alone(
    trained: tuple[int, ...], compared: tuple[int, ...]
) -> None:
    trial: Any = SimpleNamespace(checkpoint=Checkpoint("c", "b", trained), setting=lambda lab: Setting(3, 1))
    model: Any = SimpleNamespace(network=SimpleNamespace(num_layers=4))
    lab: Any = None
    assert dynamic._compared(model, trial, lab) == compared
