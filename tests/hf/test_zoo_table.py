"""README says what the tests show."""

import importlib.util
from pathlib import Path

import pytest
import transformers

ROOT = Path(__file__).resolve().parents[2]


def _pinned() -> bool:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    # a pin may be followed by a marker, as "transformers==5.24.0 ; python_version >= ..."
    return f"transformers=={transformers.__version__}" in (line.partition(" ")[0] for line in pins.splitlines())


@pytest.mark.skipif(not _pinned(), reason="the table is that of the pinned transformers")
def test_the_table_of_model_types_is_up_to_date():
    spec = importlib.util.spec_from_file_location("support_table", ROOT / "scripts" / "support_table.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert script.renewed(readme) == readme, "run scripts/support_table.py"
