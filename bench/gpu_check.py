"""CUDA graphs on a real GPU: are they equal to what they replay, and how near the memory's bandwidth is decoding?

    python bench/gpu_check.py --size 7b            # on one large GPU, 8 minutes at most; needs src on PYTHONPATH
    python bench/gpu_check.py --device cpu --size tiny

Every part is limited in time and fails alone. Results go to the screen, and to --out (else $OUT/gpu_check-SIZE.json) as
they come. On a CPU graphs are stood in for by running their function again: that tests this script, nothing else.
"""

from __future__ import annotations

import argparse
import os
import platform
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import transformers
from arms import Arm, engine_arm, transformers_arm
from check_report import Report, table
from measuring import OutOfTime, bandwidth, head_bytes, plan_bytes, seconds_of, time_limit
from planted_llama import SHAPES, build, plant
from single_runs import Size, compare, gap, one_head, one_run, rounding

from skipstone.hf.prepare import DecoderNetwork, prepare
from skipstone.kernels.cuda_graphs import GraphedNetwork
from skipstone.kernels.graph_table import GraphOptions
from skipstone.kernels.recorder import Rerun
from skipstone.plan import LayerPlan
from skipstone.request import Request
from skipstone.tree import Topology

DEPTH = 5  # tokens drafted a cycle
# of the largest number; more than that is no rounding, whatever the kernels
TOLERANCE = {"bfloat16": 5e-2, "float16": 1e-2, "float32": 1e-4, "float64": 1e-9}


@dataclass
class Check:
    """What the parts share."""

    arguments: argparse.Namespace
    report: Report
    device: torch.device
    network: DecoderNetwork | None = None
    bandwidth: float = 0.0

    def __post_init__(self) -> None:
        self.exit_layer = max(SHAPES[self.arguments.size].layers // 4, 1)
        self.silent = range(1, SHAPES[self.arguments.size].layers, 2)

    @property
    def built(self) -> DecoderNetwork:
        if self.network is None:
            raise RuntimeError("there is no model: its part failed")
        return self.network

    def graphed(self, **options: Any) -> GraphedNetwork:
        recorder = None if self.device.type == "cuda" else Rerun()
        return GraphedNetwork(self.built, recorder, GraphOptions(**options))

    def prompt(self, length: int) -> list[int]:
        return [(7919 * n) % self.built.vocab_size for n in range(1, length + 1)]


# the parts


def versions(check: Check, found: dict[str, Any]) -> None:
    cuda = check.device.type == "cuda"
    found["device"] = torch.cuda.get_device_name(check.device) if cuda else platform.processor() or platform.machine()
    found["torch"], found["transformers"] = torch.__version__, transformers.__version__
    found["cuda"], found["dtype"], found["size"] = torch.version.cuda, check.arguments.dtype, check.arguments.size
    check.bandwidth = found["bandwidth"] = bandwidth(check.device)
    check.report.say(f"{found['device']}, torch {found['torch']}: {check.bandwidth / 1e9:.0f} GB/s")


def model(check: Check, found: dict[str, Any]) -> None:
    built = build(SHAPES[check.arguments.size], check.device, getattr(torch, check.arguments.dtype))
    check.network = prepare(built, "stock").network  # fused blocks, as load would have them
    tokens = torch.tensor([check.prompt(48)], device=check.device)
    with torch.inference_mode():
        theirs = built(tokens).logits
        cache = check.built.new_cache(1, 48)
        placement = cache.place(Topology.chain(48), [0])
        ours = check.built.logits(check.built.run(tokens, placement, cache, _full(check)).hidden)
    found["weight_bytes"] = plan_bytes(built, _full(check)) + head_bytes(built)
    found["parity_gap"] = gap(ours, theirs)
    check.report.say(f"{found['weight_bytes'] / 1e9:.2f} GB read a step; parity gap {found['parity_gap']:.1e}")


def equal(check: Check, found: dict[str, Any]) -> None:
    """Graphed against not, run by run; the gap of one node against five shows what rounding alone does here."""
    graphed = check.graphed(after=0)
    rows: list[dict[str, Any]] = found.setdefault("runs", [])
    for length in check.arguments.lengths:
        for name, plan in _plans(check).items():
            for chosen in ([0], [0, 1, 2], [2, 0]):
                for nodes in (1, DEPTH + 1):
                    shown = {"slots": length, "plan": name, "rows": str(chosen), "nodes": nodes}
                    rows.append({**shown, **compare(check.built, graphed, plan, Size(tuple(chosen), nodes, length))})
    found["rounding"] = rounding(check.built, Size((0,), DEPTH + 1, check.arguments.lengths[0]))
    found["graphs"], found["notes"] = graphed.recorded, graphed.notes
    found["largest_gap"] = max(max(row["hidden"], row["logits"], row["keys"]) for row in rows)
    check.report.say("relative gaps, graphed against not\n" + table(rows))
    check.report.say(f"rounding alone: {found['rounding']:.1e}; graphs: {graphed.recorded}; notes: {graphed.notes}")
    limit = TOLERANCE[check.arguments.dtype]
    if not all(row[what] <= limit for row in rows for what in ("hidden", "logits", "keys")):  # NaN is not fine either
        raise RuntimeError(f"graphed runs differ from the others by {found['largest_gap']:.1e}")
    if graphed.notes:
        raise RuntimeError(f"not everything was recorded, so little was compared: {graphed.notes}")


def steps(check: Check, found: dict[str, Any]) -> None:
    """Milliseconds of single runs and of the head, one row, beside what their weights take to read."""
    graphed = check.graphed(after=0)
    length, rows = check.arguments.lengths[-1], found.setdefault("runs", [])
    nets = (check.built, graphed)
    for nodes in (1, DEPTH + 1):
        for name, plan in _plans(check).items():
            works = [one_run(net, plan, Size((0,), nodes, length)) for net in nets]
            rows.append(_milliseconds(check, f"{name}, {nodes} nodes", works, plan_bytes(check.built.model, plan)))
        works = [one_head(net, nodes, check.built.config.hidden_size) for net in nets]
        rows.append(_milliseconds(check, f"head, {nodes} nodes", works, head_bytes(check.built.model)))
    check.report.say(f"milliseconds at {length} slots\n" + table(rows))


def exit_form(check: Check, found: dict[str, Any]) -> None:
    """All layers from E on are silent: an exit at E is always right."""
    plant(check.built.model, range(check.exit_layer, check.built.num_layers))
    _race(check, found, f"exit:layer={check.exit_layer},depth={DEPTH}")


def skip_form(check: Check, found: dict[str, Any]) -> None:
    """Every other layer is silent: a draft without them is always right."""
    plant(check.built.model, check.silent)
    layers = "+".join(map(str, check.silent))
    _race(check, found, f"skip:attn={layers},mlp={layers},depth={DEPTH}")


PARTS: dict[str, tuple[float, Callable[[Check, dict[str, Any]], None]]] = {  # seconds at most
    "versions": (30, versions),
    "model": (90, model),
    "equal": (100, equal),
    "steps": (60, steps),
    "exit": (120, exit_form),
    "skip": (120, skip_form),
}


# what parts are made of


def _full(check: Check) -> LayerPlan:
    return LayerPlan.full(check.built.num_layers)


def _skip(check: Check) -> LayerPlan:
    return LayerPlan.skipping(check.built.num_layers, check.silent, check.silent)


def _plans(check: Check) -> dict[str, LayerPlan]:
    L, E = check.built.num_layers, check.exit_layer
    return {"full": _full(check), "until": LayerPlan.until(E), "rest": LayerPlan.rest(E, L), "skip": _skip(check)}


def _milliseconds(check: Check, name: str, works: list[Callable[[], object]], read: int) -> dict[str, Any]:
    """Both ways to do a piece of work that reads ``read`` bytes of weights."""
    for work in works * 2:
        work()
    plain, graphed = (1e3 * seconds_of(work, check.device, repeats=5, calls=5) for work in works)
    bound = 1e3 * read / check.bandwidth
    return {"run": name, "plain": plain, "graphed": graphed, "bound": bound, "of bound": bound / graphed}


def _race(check: Check, found: dict[str, Any], drafter: str) -> None:
    """Every way to decode one prompt, in turns; tokens against plain decoding without graphs."""
    net, graphed = check.built, check.graphed()
    request = Request(check.prompt(check.arguments.prompt), check.arguments.tokens)
    draft = drafter.partition(":")[0]
    arms = [
        engine_arm("plain", net, net.model, request, "none"),
        transformers_arm(net, request),
        engine_arm("plain, graphs", graphed, net.model, request, "none"),
        engine_arm(draft, net, net.model, request, drafter),
        engine_arm(f"{draft}, graphs", graphed, net.model, request, drafter),
    ]
    found["drafter"] = drafter
    for turn in range(check.arguments.rounds + 1):
        for arm in arms:
            _measure(arm, check, keep=turn > 0)
        found["arms"] = [arm.row(arms[0].tokens, check.bandwidth) for arm in arms]
        found["notes"], found["graphs"] = graphed.notes, graphed.recorded
        check.report.save()
    check.report.say(f"{drafter}\n{table(found['arms'])}\ngraphs: {graphed.recorded}; notes: {graphed.notes}")


def _measure(arm: Arm, check: Check, keep: bool) -> None:
    if arm.error:
        return
    try:
        arm.measure(check.device, keep)
    except Exception as error:
        arm.error = f"{type(error).__name__}: {error}".partition("\n")[0][:120]
        check.report.say(f"{arm.name} failed\n{traceback.format_exc()}")


# the whole


def run(check: Check, deadline: float) -> bool:
    """All parts; whether none failed."""
    fine = True
    for name in check.arguments.parts:
        limit, part = PARTS[name]
        found = check.report.part(name)
        left = deadline - perf_counter()
        check.report.say(f"== {name} (at most {min(limit, left):.0f} s)")
        try:
            if left < 1:
                raise OutOfTime
            with time_limit(min(limit, left)):
                part(check, found)
        except (Exception, OutOfTime) as error:
            fine = False
            found["error"] = f"{type(error).__name__}: {error}"
            check.report.say(f"{name} did not finish\n{traceback.format_exc()}")
        if check.device.type == "cuda":
            found["peak_memory"] = torch.cuda.max_memory_allocated(check.device)
        check.report.save()
    return fine


def parsed(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SHAPES, default="7b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32", "float64"])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tokens", type=int, default=128, help="new tokens of each text")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    parser.add_argument("--lengths", type=int, nargs="+", default=[100, 1000], help="cached slots to compare at")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=8.0, help="for everything")
    parser.add_argument("--out", type=Path, help="the JSON file")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    arguments = parsed(argv)
    out = arguments.out or Path(os.environ.get("OUT", ".")) / f"gpu_check-{arguments.size}.json"
    check = Check(arguments, Report(out), torch.device(arguments.device))
    fine = run(check, perf_counter() + 60 * arguments.minutes)
    check.report.say(f"results are in {out}" + ("" if fine else "; some parts did not finish"))
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
