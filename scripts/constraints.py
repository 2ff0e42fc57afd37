"""Write constraints.txt: the exact version of every package that `make setup` installs.

Run through `make constraints`. The pins are what a fresh Python 3.11 environment gets; packages that no longer serve
Python 3.10 get a second line, resolved by a Python 3.10 (without installing). torch itself is left out of that second
resolution, as it is large and the same release serves both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
CHOSEN = ["torch==2.13.0", "transformers==5.24.0"]  # what the tests have been run with; Python 3.10 gets its own newest
LOWEST = ["torch==2.13.0", "transformers==4.57.6"]  # the oldest transformers we serve, for `make test-lowest`
HEADER = """\
# Exact versions of everything `make setup` installs. Do not edit: `make constraints` regenerates this file
# from pyproject.toml (it needs a Python 3.11 and a Python 3.10; see scripts/constraints.py).
# torch pins the accelerator libraries that its builds bring along itself.
"""
HEADER_LOWEST = """\
# Exact versions of everything `make test-lowest` installs: the oldest transformers Skipstone serves. Do not edit:
# `make constraints` regenerates this file.
"""


def main() -> None:
    options = arguments()
    requirements = project_requirements()
    with tempfile.TemporaryDirectory() as scratch:
        newer = installed_versions(options.python, [*requirements, *CHOSEN], Path(scratch) / "newer")
        lowest = installed_versions(options.python, [*requirements, *LOWEST], Path(scratch) / "lowest")
        older = resolved_versions(options.python310, requirements, Path(scratch) / "older")
    (ROOT / "constraints.txt").write_text(HEADER + "".join(lines(newer, older)), encoding="utf-8")
    (ROOT / "constraints-lowest.txt").write_text(HEADER_LOWEST + pins(lowest), encoding="utf-8")


def pins(versions: dict[str, str]) -> str:
    return "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="a Python 3.11")
    parser.add_argument("--python310", required=True, help="a Python 3.10")
    return parser.parse_args()


def project_requirements() -> list[str]:
    """Every requirement of the project and its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [item for extra in project.get("optional-dependencies", {}).values() for item in extra]
    return [*project["dependencies"], *extras]


def installed_versions(python: str, requirements: list[str], folder: Path) -> dict[str, str]:
    """Install into a fresh environment and list what it holds."""
    pip = fresh_pip(python, folder)
    subprocess.run([*pip, "install", *requirements], check=True)
    frozen = subprocess.run([*pip, "list", "--format=json"], check=True, capture_output=True, text=True).stdout
    return {canonical(item["name"]): public(item["version"]) for item in json.loads(frozen)}


def resolved_versions(python: str, requirements: list[str], folder: Path) -> dict[str, str]:
    """Resolve without installing; torch, and accelerate which needs it, are replaced by what torch requires."""
    pip = fresh_pip(python, folder)
    torch_needs = ["filelock", "typing-extensions", "setuptools", "sympy", "networkx", "jinja2", "fsspec", "pip"]
    tools = [item for item in requirements if not item.startswith(("torch", "accelerate"))]
    report = folder / "report.json"
    command = [*pip, "install", "--dry-run", "--ignore-installed", "--report", str(report), *tools, *torch_needs]
    subprocess.run(command, check=True)
    found = [item["metadata"] for item in json.loads(report.read_text(encoding="utf-8"))["install"]]
    return {canonical(item["name"]): public(item["version"]) for item in found}


def fresh_pip(python: str, folder: Path) -> list[str]:
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    subprocess.run([*pip, "install", "--upgrade", "pip"], check=True)
    return pip


def lines(newer: dict[str, str], older: dict[str, str]) -> list[str]:
    """One line for a package whose version serves both Pythons, two with markers otherwise."""
    written = []
    for name in sorted(newer | older):
        same = name not in older or newer.get(name) == older[name]
        if same:
            written.append(f"{name}=={newer[name]}\n")
        else:
            written.append(f'{name}=={older[name]} ; python_version < "3.11"\n')
            written += [f'{name}=={newer[name]} ; python_version >= "3.11"\n'] if name in newer else []
    return written


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def public(version: str) -> str:
    """A version without its local label: 2.13.0+cpu is 2.13.0."""
    return version.partition("+")[0]


if __name__ == "__main__":
    main()
