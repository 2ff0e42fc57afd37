"""A model from the Hugging Face hub, safetensors only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import StoreError
from .atomic import disk_errors, disk_is_full

WANTED = ("*.safetensors", "*.json", "*.txt", "*.jinja")


def fetch_hub(repo_id: str, folder: Path, progress: Callable[[str], None]) -> Path:
    """Download a repository's weights, tokenizer and settings into `folder`; files that are there are kept.

    Pickled weights are never fetched. Raises StoreError when the hub cannot be reached or knows no such repository.
    """
    from huggingface_hub import snapshot_download  # slow to import, and the wheel source does without it

    progress(f"downloading {repo_id} from the hub")
    with disk_errors(folder):
        try:
            snapshot_download(repo_id, local_dir=folder, allow_patterns=list(WANTED))
        except Exception as error:  # the hub's client raises its HTTP library's errors, which change between versions
            if disk_is_full(error):
                raise
            raise hub_error(repo_id, error) from error
    return folder


def hub_error(repo_id: str, error: Exception) -> StoreError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return StoreError(f"cannot download {repo_id} from the hub: {reason}; give the path of a model folder instead")


def hub_snapshot(repo_id: str, progress: Callable[[str], None], *, offline: bool = False) -> Path:
    """A repository in the hub's own cache, which transformers shares; fetched first where it is not there whole.

    Raises StoreError when the hub cannot be reached or knows no such repository, and offline when it is not there.
    """
    from huggingface_hub import snapshot_download

    progress(f"looking up {repo_id} {'in the hub cache' if offline else 'on the hub'}")
    with disk_errors(Path(repo_id)):
        try:
            return Path(snapshot_download(repo_id, allow_patterns=list(WANTED), local_files_only=offline))
        except Exception as error:
            if disk_is_full(error):
                raise
            if offline:
                raise StoreError(f"offline, and {repo_id} is not in the hub cache: load it once online") from error
            raise hub_error(repo_id, error) from error
