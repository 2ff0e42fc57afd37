"""Labels of tasks: what is found out for one kind of text is kept under a name of the caller's."""

from __future__ import annotations

from ..errors import UsageError


def check_task(name: str, task: str) -> None:
    """Raises UsageError for what could not be written in a drafter's options; ``name`` is who was given it."""
    if "," in task or not task.isprintable() or task != task.strip():
        raise UsageError(
            f"{name}: task={task!r} is no label: use printable characters without commas, and no spaces at its ends"
        )
