"""Drafters by name: ``skip:plan=uniform,depth=4`` names an entry point and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, get_type_hints

from .drafting import Drafter
from .errors import UsageError, did_you_mean
from .network import Network

GROUP = "skipstone.drafters"


class DrafterType(Protocol):
    """What an entry point of the group ``skipstone.drafters`` loads: a class with an ``Options`` dataclass.

    The fields of ``Options`` are int, float, bool or str with defaults, ``metadata={"help": …}`` beside each; its
    ``__post_init__`` raises UsageError. The first line of the class docstring is what ``skipstone drafters`` shows.
    """

    Options: type[Any]

    def __call__(self, options: Any, network: Network) -> Drafter: ...


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a drafter, for help texts."""

    name: str
    type: str
    default: object
    help: str


def drafter_names() -> list[str]:
    """All installed drafters, sorted."""
    return sorted(entry_points(group=GROUP).names)


def drafter_type(name: str) -> DrafterType:
    """The drafter class of that name. Raises UsageError if it is not installed or does not load."""
    found: list[EntryPoint] = list(entry_points(group=GROUP, name=name))
    if not found:
        raise UsageError(f'drafter "{name}" is not installed: {did_you_mean(name, drafter_names())}')
    try:
        loaded: DrafterType = found[0].load()
    except Exception as error:  # a third party's module may raise anything
        raise UsageError(f'drafter "{name}" ({found[0].value}) does not load: {error}') from error
    if not is_dataclass(getattr(loaded, "Options", None)):
        raise UsageError(f'drafter "{name}" ({found[0].value}) has no dataclass Options: its author must add one')
    return loaded


def make_drafter(spec: str, network: Network) -> Drafter:
    """Build the drafter that ``name`` or ``name:key=value,…`` describes, for one network. Raises UsageError."""
    kind, options = read_spec(spec)
    return kind(options, network)


def read_spec(spec: str) -> tuple[DrafterType, Any]:
    """The class and its options, all that can be checked without a network. Raises UsageError."""
    name, _, text = spec.strip().partition(":")
    kind = drafter_type(name)
    return kind, parse_options(name, kind, text)


def parse_options(name: str, kind: DrafterType, text: str) -> Any:
    """An ``Options`` object from ``key=value,…``. Raises UsageError on unknown, repeated or unreadable options."""
    given: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f'drafter {name}: option "{part}" has no value: write {part}=…')
        if key in given:
            raise UsageError(f'drafter {name}: option "{key}" is given twice')
        given[key] = value
    types = get_type_hints(kind.Options)
    unknown = [key for key in given if key not in types]
    if unknown:
        hint = did_you_mean(unknown[0], types) if types else "it takes none"
        raise UsageError(f'drafter {name}: there is no option "{unknown[0]}": {hint}')
    return kind.Options(**{key: _convert(name, key, value, types) for key, value in given.items()})


def _convert(name: str, key: str, value: str, types: Mapping[str, type]) -> object:
    want = types[key]
    if want is bool and value in ("true", "false"):
        return value == "true"
    try:
        if want is bool or (want is not str and not (value.isascii() and "_" not in value)):
            raise ValueError
        return want(value)
    except ValueError:
        raise UsageError(f"drafter {name}: {key}={value!r} is not {_TYPE_NAMES[want.__name__]}") from None


_TYPE_NAMES = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}


def describe(name: str) -> tuple[str, list[Option]]:
    """A drafter's one-line summary and its options."""
    kind = drafter_type(name)
    types = get_type_hints(kind.Options)
    options = [
        Option(f.name, types[f.name].__name__, None if f.default is MISSING else f.default, f.metadata.get("help", ""))
        for f in fields(kind.Options)
    ]
    summary = (kind.__doc__ or "").strip() or "(no description)"
    return summary.splitlines()[0], options
