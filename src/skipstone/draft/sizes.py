"""How deep and how wide a draft may be asked to be."""

from __future__ import annotations

from ..errors import UsageError

_MOST = 10**6


def check_sizes(name: str, **sizes: int) -> None:
    """Raises UsageError for what no draft can have; ``name`` is who was given it. 0 stands for what pays."""
    wrong = [f"{option}={str(size)[:40]}" for option, size in sizes.items() if not 0 <= size <= _MOST]
    if wrong:
        raise UsageError(f"{name}: {', '.join(wrong)}: use 1 to {_MOST:,}, or 0 for what pays")
