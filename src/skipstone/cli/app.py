"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from .bench import bench_app
from .check import check
from .demo import demo
from .drafters import drafters
from .generate import generate
from .inspect import inspect
from .loading import after_torch
from .options import Debug
from .outcome import Invocation
from .plans import plans_app
from .pull import pull
from .sweep import sweep
from .train import train
from .tune import tune


def run(invocation: Invocation) -> None:
    """Parse and run one command line. Raises what the command raises, and typer's own exceptions."""
    command = typer.main.get_command(build())
    with command.make_context("skipstone", list(invocation.argv), obj=invocation) as context:
        command.invoke(context)


def build() -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(skipstone)
    for command in (generate, pull, inspect, drafters, check, train, tune, sweep, demo):
        app.command()(after_torch(command))
    app.add_typer(plans_app(), name="plans")
    app.add_typer(bench_app(), name="bench")
    return app


def _version(value: bool) -> None:
    if value:
        print(f"skipstone {__version__}")
        raise typer.Exit


def skipstone(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Debug = False,
) -> None:
    """Large language models that generate faster with their own layers, token for token the same text."""
