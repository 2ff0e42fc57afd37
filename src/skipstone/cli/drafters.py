"""skipstone drafters"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .options import AsJson, Debug


def drafters(as_json: AsJson = False, debug: Debug = False) -> None:
    """List the drafters that are installed, with their options."""
    from ..plugins import drafter_names

    entries = [_entry(name) for name in drafter_names()]
    if as_json:
        print(json.dumps(entries))
    else:
        _print(entries)


def _entry(name: str) -> dict[str, Any]:
    """One drafter's summary and options; a third party's that does not load is listed with the reason."""
    from ..errors import UsageError
    from ..plugins import describe

    try:
        summary, options = describe(name)
    except UsageError as error:
        return {"name": name, "summary": str(error), "options": []}
    return {"name": name, "summary": summary.replace("``", ""), "options": [asdict(option) for option in options]}


def _print(entries: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for entry in entries:
        console.print(Text(entry["name"], style="bold"), Text(entry["summary"]), highlight=False)
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for option in entry["options"]:
            default = "" if option["default"] == "" else f"={option['default']}"
            table.add_row(Text(f"  {option['name']}{default}", style="cyan"), option["type"], Text(option["help"]))
        if entry["options"]:
            console.print(table)
    console.print(Text("As in: skipstone generate --drafter skip:plan=uniform,depth=4 …"), highlight=False)
