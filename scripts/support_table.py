"""README's table of model types, from the configurations in tests/support that have parity here and now.

`python scripts/support_table.py` rewrites the table between its markers; `table()` is what a test compares it with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN, END = "<!-- support table: scripts/support_table.py -->\n", "<!-- end of support table -->\n"
HEAD = "| model type | how a layer adds up | what the tests make matter |\n|---|---|---|\n"


def main() -> None:
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support")]
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")


def renewed(readme: str) -> str:
    """The text with a fresh table."""
    before, rest = readme.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def table() -> str:
    return HEAD + "".join(f"| `{name}` | {wiring} | {covers} |\n" for name, wiring, covers in sorted(rows()))


def rows() -> Iterator[tuple[str, str, str]]:
    """Type, wirings and what is covered, for every type all of whose configurations have parity."""
    from wrappers import WRAPPERS
    from zoo import ZOO

    for kind in dict.fromkeys(sample.model_type for sample in ZOO.values()):
        samples = {name: sample for name, sample in ZOO.items() if sample.model_type == kind}
        shapes = [shape(name) for name in samples]
        if None not in shapes:
            covers = dict.fromkeys(sample.covers for sample in samples.values() if sample.covers)
            yield kind, " · ".join(dict.fromkeys(filter(None, shapes))), "; ".join(covers)
    for kind in dict.fromkeys(kind for kind, _ in WRAPPERS.values()):
        parts = [text for name, (of, _) in WRAPPERS.items() if of == kind and (text := text_part(name))]
        if parts:
            yield kind, "its text part", f"text only: {', '.join(parts)}"


def shape(name: str) -> str | None:
    """How the layers of a sample add up, in words; None without parity."""
    from zoo import ZOO, network, prompt

    from skipstone.hf.selfcheck import parity_gap

    net = network(name)
    if parity_gap(net, prompt(32)) > (1e-6 if ZOO[name].rounds else 1e-9):
        return None
    wiring = net.wiring
    if wiring.parallel:
        return "parallel"
    if wiring.after:
        return "norm after the sum"
    if wiring.attn_post or wiring.mlp_post:
        return "norms on both sides" if wiring.attn_norm else "norms behind"
    return "serial"


def text_part(name: str) -> str | None:
    from wrappers import network, prompt

    from skipstone.hf.selfcheck import parity_gap

    net = network(name)
    return f"`{net.config.model_type}`" if parity_gap(net, prompt(32)) <= 1e-9 else None


if __name__ == "__main__":
    main()
