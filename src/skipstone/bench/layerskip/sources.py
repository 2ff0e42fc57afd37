"""The public texts that our checkpoint is trained on and judged by, and which of them training never sees."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...hf.tokenizer import HFTokenizer

_STORIES_HELD_OUT = 116  # the last ones of the file
FILES = ("gsm8k_test_200.jsonl", "tinystories_train.jsonl.gz", "wikitext2_valid.txt", "spec_bench_60.jsonl")
_MATHS, _STORIES, _WIKITEXT, _CHATS = FILES

TRAINED_ON = (  # by the checkpoint, and gone on with by its base
    "gsm8k_train.jsonl.gz",
    "tinystories_train.jsonl.gz",
    "cnn_dm_40.jsonl",
    "dolly_151.jsonl",
    "self_instruct_427.jsonl",
)


@dataclass(frozen=True)
class Sources:
    """A folder with the files as they are published. Whatever is asked for raises UsageError where its file is not."""

    folder: Path

    def need(self, names: Sequence[str]) -> None:
        """Raises UsageError where some of these files are not there, before anything is made of the others."""
        missing = [name for name in names if not (self.folder / name).is_file()]
        if missing:
            where = "README.md of checkpoints/smollm2-135m-layerskip says where they are had"
            raise UsageError(f"{self.folder} lacks {', '.join(missing)}; needed are {', '.join(names)}: {where}")

    def rows(self, name: str, *fields: str) -> list[dict[str, Any]]:
        """The objects of a JSONL file, ``fields`` all in each of them."""
        try:
            found = [json.loads(line) for line in self._content(name).split("\n") if line.strip()]
        except ValueError as error:
            raise UsageError(f"{self.folder / name}: not JSON ({error}); fetch it again") from error
        for row in found:
            if not isinstance(row, dict) or not set(fields) <= row.keys():
                raise UsageError(f"{self.folder / name}: a line lacks one of {', '.join(fields)}; is it another file?")
        return found

    def stories(self) -> list[str]:
        return [row["text"] for row in self._stories()[:-_STORIES_HELD_OUT]]

    def held_out_stories(self) -> list[str]:
        return [row["text"] for row in self._stories()[-_STORIES_HELD_OUT:]]

    def held_out_questions(self) -> list[dict[str, Any]]:
        """With question and answer, of GSM8K's test set."""
        return self.rows(_MATHS, "question", "answer")

    def held_out_maths(self, tokenizer: HFTokenizer) -> list[str]:
        return [chat(tokenizer, row["question"], row["answer"]) for row in self.held_out_questions()]

    def held_out_chats(self) -> list[str]:
        """Questions of Spec-Bench that ask for talk, not for sums or translations."""
        rows = self.rows(_CHATS, "category", "turns")
        return [str(row["turns"][0]) for row in rows if row["category"] in ("writing", "roleplay", "reasoning")]

    def wikitext(self) -> str:
        return self._content(_WIKITEXT)

    def held_out(self, tokenizer: HFTokenizer) -> dict[str, list[str]]:
        """By name; the first two are of the kinds trained on, the last is not, but for prose of its subjects."""
        stories, wikitext = self.held_out_stories(), [self.wikitext()]
        return {"maths": self.held_out_maths(tokenizer), "stories": stories, "wikitext": wikitext}

    def _stories(self) -> list[dict[str, Any]]:
        return self.rows(_STORIES, "text")

    def _content(self, name: str) -> str:
        file = self.folder / name
        try:
            raw = file.read_bytes()
            return (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode()
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            absent = isinstance(error, FileNotFoundError)
            hint = f"give --data a folder with {', '.join(FILES)}" if absent else "fetch it again"
            raise UsageError(f"{file} cannot be read: {reason}; {hint}") from error


def chat(tokenizer: HFTokenizer, asked: str, said: str) -> str:
    """A question with its answer as the model's template writes them, one text where there is no template."""
    if not tokenizer.has_chat:
        return f"{asked}\n{said}"
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
    return str(tokenizer.tokenizer.apply_chat_template(messages, tokenize=False))


def first_sentences(texts: Sequence[str]) -> list[str]:
    return [re.split(r"(?<=[.!?]) ", text.strip(), maxsplit=1)[0] for text in texts]
