"""Planted models: some sublayers do nothing, so the best draft is known and is accepted always."""

from .grown import grown_model
from .model import PlantedModel, moved
from .random import Shape, exit_form, skip_form

__all__ = ["PlantedModel", "Shape", "exit_form", "grown_model", "moved", "skip_form"]
