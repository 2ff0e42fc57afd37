"""What the exits' predictions are compared with: labels, a teacher's own distribution, or both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UsageError
from ..hf.head import Head

Compare = Callable[[Tensor], Tensor]  # logits [C, V] -> the sum of the losses of C tokens


@dataclass(frozen=True)
class Teacher:
    """Self-distillation: the exits learn what the starting model itself would say, so that it moves little.

    Its logits are made from ``hidden`` when they are needed, a chunk of tokens at a time. The loss is T²·KL(teacher ‖
    exit), both at ``temperature`` T: the cross-entropy to the teacher without the teacher's own entropy, hence 0 where
    they agree. ``label_share`` α of the loss is the labels' cross-entropy, 1-α the teacher's.
    """

    hidden: Tensor  # [B, N, H] after the teacher's last layer, before its final norm
    head: Head
    temperature: float = 1.0
    label_share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise UsageError(f"a teacher at temperature {self.temperature}: give a number above 0")
        if not 0 <= self.label_share <= 1:
            raise UsageError(f"a label_share of {self.label_share}: give a number from 0 to 1")

    def at(self, tokens: Tensor) -> Teacher:
        """The same for some tokens [n] of the batch, counted row by row: hidden [n, H]."""
        return replace(self, hidden=self.hidden.detach().flatten(0, -2).index_select(0, tokens))

    def log_probs(self, part: slice) -> Tensor:
        """[C, V] of a chunk of tokens."""
        return F.log_softmax(self._cooled(_exact(self.head(self.hidden[part]))), dim=-1)

    def compared(self, logits: Tensor) -> Tensor:
        """[C, V] log-probabilities of an exit, at the teacher's temperature. The loss has T² before it, which keeps the
        gradients' size whatever the temperature."""
        return F.log_softmax(self._cooled(logits), dim=-1)

    def _cooled(self, logits: Tensor) -> Tensor:
        return logits if self.temperature == 1 else logits / self.temperature


@dataclass(frozen=True)
class Targets:
    """For n tokens in a row, which all have a label [n]."""

    labels: Tensor
    teacher: Teacher | None = None  # hidden [n, H]

    def comparing(self, part: slice) -> Compare:
        """The loss of a chunk of tokens; the teacher's logits are made once for all exits."""
        labels, teacher = self.labels[part], self.teacher
        if teacher is None:
            return lambda logits: F.cross_entropy(_exact(logits), labels, reduction="sum")
        log_probs, share = teacher.log_probs(part), teacher.label_share
        probs = log_probs.exp()
        entropy = _dots(probs, log_probs)

        def compare(logits: Tensor) -> Tensor:
            """At temperature 1 one softmax serves both."""
            exact = _exact(logits)
            mine = teacher.compared(exact)
            loss = (1 - share) * teacher.temperature**2 * (entropy - _dots(probs, mine))
            if not share:
                return loss
            if teacher.temperature == 1:
                return loss + share * F.nll_loss(mine, labels, reduction="sum")
            return loss + share * F.cross_entropy(exact, labels, reduction="sum")

        return compare


def _dots(a: Tensor, b: Tensor) -> Tensor:
    """Σ a·b [] of [C, V], without a product of that size; row by row, as one sum over all would lose digits."""
    dtype = torch.promote_types(a.dtype, b.dtype)
    return torch.bmm(a.to(dtype)[:, None, :], b.to(dtype)[:, :, None]).sum()


def _exact(logits: Tensor) -> Tensor:
    """Sums over a vocabulary need more than 16 bits."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
