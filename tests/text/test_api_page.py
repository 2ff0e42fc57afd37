"""docs/api.md against what is returned."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from skipstone.search.event import Event
from skipstone.search.report import SearchReport
from skipstone.text.generation import Generation, Piece


@pytest.mark.parametrize("kind", [Generation, Piece, SearchReport, Event])
def test_the_page_names_every_field_and_property(kind: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    properties = [name for name, value in vars(kind).items() if isinstance(value, property)]
    names = [field.name for field in fields(kind)] + properties
    assert [name for name in names if f"`{name}`" not in page] == []
