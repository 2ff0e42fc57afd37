"""Text in, text out: a loaded model with a drafter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any

from ..accept import AcceptanceRule
from ..cost import CostModel, CostTable
from ..drafting import Drafter
from ..engine import Engine
from ..errors import RequestError, UsageError
from ..hf.load import LoadedModel
from ..hf.tokenizer import HFTokenizer
from ..network import Network, loss_of, wrapped
from ..plugins import make_drafter
from ..request import Request
from ..row import Emission
from ..sampling import derived_seed
from ..search.report import SearchReport
from ..stopping import StopRule, StopTokens
from ..telemetry import Sink
from .generation import Generation, Piece
from .memories import Memories, Plans
from .prompt import Prompt, token_ids, valid_messages, valid_text
from .settings import GenerationSettings
from .stop_strings import StopStrings
from .writer import Writer

__all__ = ["LanguageModel", "Prompt"]

# scratch slots beside prompt and output: more than any draft of a sensible size needs
_SCRATCH = 64


class LanguageModel:
    """A model ready to generate; make one with ``skipstone.load``.

    A prompt is raw text, a list of chat messages ({"role", "content"}), or a list of token ids.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        drafter: str | Drafter = "none",
        measure_costs: Callable[[], CostTable] | None = None,
        network: Network | None = None,
        plans: Plans | None = None,
    ) -> None:
        """``measure_costs`` tells what steps cost; asked once, when a drafter first wants to know.

        ``network`` runs in the place of the loaded one: the same, wrapped (ExactNetwork, GraphedNetwork), or a lossy
        part of it (EarlyExitNetwork), which ``lossy``, ``name`` and ``notes`` then say.
        ``plans`` outlive the process.
        """
        self.loaded = loaded
        self.network: Network = network or loaded.network
        self.lossy = loss_of(self.network)  # how its texts are not the model's own; "" where they are
        self.name = f"{loaded.name} (lossy: {self.lossy})" if self.lossy else loaded.name
        self.tokenizer: HFTokenizer = loaded.tokenizer
        self.defaults = loaded.generation
        self.drafter = drafter
        self._measure_costs = measure_costs
        self._costs: CostModel | None = None
        self._measuring = Lock()
        self.plans = plans
        self._memories = Memories(plans, loaded.exits)
        made = self.make(drafter)  # a setting that does not fit the model is told at once
        drafters = getattr(made, "notes", [])
        self.notes = [*loaded.notes, *self._network_notes(), *drafters]  # what one would not expect of it, a line each

    def __repr__(self) -> str:
        dtype = str(self.network.dtype).removeprefix("torch.")
        return f"<LanguageModel {self.name}: {self.network.num_layers} layers, {dtype} on {self.network.device}>"

    def generate(self, prompt: Prompt, *, drafter: str | Drafter | None = None, **settings: Any) -> Generation:
        """Generate one text; ``settings`` are those of GenerationSettings (max_new_tokens, temperature, …).

        Raises UsageError and RequestError for settings and prompts that cannot work.
        """
        if settings.get("num_return_sequences", 1) != 1:
            raise RequestError("generate gives one text: use generate_batch([prompt], num_return_sequences=…)")
        return self.generate_batch([prompt], drafter=drafter, **settings)[0]

    def generate_batch(
        self, prompts: Sequence[Prompt], *, drafter: str | Drafter | None = None, rows: int = 8, **settings: Any
    ) -> list[Generation]:
        """Generate ``num_return_sequences`` texts for each of several prompts, in order, ``rows`` texts at a time."""
        pieces = self.stream_batch(prompts, drafter=drafter, rows=rows, **settings)
        done = {piece.index: piece.generation for piece in pieces if piece.generation is not None}
        return [done[index] for index in sorted(done)]

    def stream(self, prompt: Prompt, *, drafter: str | Drafter | None = None, **settings: Any) -> Iterator[Piece]:
        """Generate one text piece by piece; the last piece carries the Generation."""
        return self.stream_batch([prompt], drafter=drafter, rows=1, **settings)

    def stream_batch(
        self, prompts: Sequence[Prompt], *, drafter: str | Drafter | None = None, rows: int = 8, **settings: Any
    ) -> Iterator[Piece]:
        """Generate for several prompts; ``Piece.index`` says which text a piece belongs to.

        Prompts and settings are checked before this returns, not at the first piece.
        """
        if isinstance(prompts, str) or not isinstance(prompts, Sequence):
            raise UsageError(f"prompts must be a list of prompts, not {type(prompts).__name__}: put it in brackets")
        chosen = GenerationSettings.of(**settings)
        requests = [self.request(prompt, chosen) for prompt in prompts]
        if not isinstance(rows, int) or isinstance(rows, bool):
            raise UsageError(f"rows={rows!r} is not a whole number")
        if rows < 1 or chosen.num_return_sequences < 1:
            given = f"rows={rows}, num_return_sequences={chosen.num_return_sequences}"
            raise RequestError(f"{given}: both must be 1 or more")
        for request in requests:
            request.check(self.network.vocab_size, self.network.context)
        return self._run(requests, self.make(drafter if drafter is not None else self.drafter), rows, chosen)

    def engine(
        self,
        *,
        capacity: int,
        rows: int = 1,
        drafter: Drafter | None = None,
        rule: AcceptanceRule | None = None,
        sinks: Iterable[Sink] = (),
    ) -> Engine:
        """An engine over this model's network, for those who speak in token ids."""
        chosen = drafter or self.make(self.drafter)
        costs = self.costs if wants(chosen) else None
        return Engine(self.network, chosen, capacity=capacity, rows=rows, rule=rule, costs=costs, sinks=sinks)

    @property
    def costs(self) -> CostModel | None:
        """What steps cost on this machine, measured on first use and refined by every step since."""
        if self._measure_costs is not None:
            with self._measuring:  # threads that measured at once would time each other
                self._costs = self._costs or CostModel(self._measure_costs())
        return self._costs

    def told(self) -> list[str]:
        """What drafters found out about this model, a line each: what is drafted with, or why nothing is."""
        return self._memories.told()

    def searches(self) -> dict[str, SearchReport]:
        """What searches for plans did so far, by drafter: candidates, scores, plans in use over time, time spent."""
        return self._memories.searches()

    def encode(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt. Raises RequestError where there are none."""
        if isinstance(prompt, str):
            tokens = self.tokenizer.encode(valid_text(prompt))
        elif (given := token_ids(prompt)) is not None:
            tokens = given
        else:
            tokens = self.tokenizer.encode_chat(valid_messages(prompt))
        if not tokens:
            raise RequestError("the prompt is empty: give it at least one character")
        return tokens

    def request(self, prompt: Prompt, settings: GenerationSettings) -> Request:
        """The engine's terms for a prompt and settings."""
        strings = settings.stops()
        eos = settings.eos_ids(self.defaults, self.tokenizer.eos_id)
        stops: list[StopRule] = [StopTokens(eos)]
        if settings.stop_token_ids:
            stops.append(StopTokens(frozenset(settings.stop_token_ids), "stop_token"))
        special = self.tokenizer.special if strings else {}
        if ends := frozenset(special[string] for string in strings if string in special):
            stops.append(StopTokens(ends, "stop_string"))
        if strings := tuple(string for string in strings if string not in special):
            stops.append(StopStrings(strings, self.tokenizer.decode))
        return Request(
            prompt=self.encode(prompt),
            max_new_tokens=settings.max_new_tokens,
            sampling=settings.sampling(self.defaults),
            stops=stops,
            constraint=settings.constraint,
            logprobs=settings.logprobs,
        )

    def _network_notes(self) -> list[str]:
        """What one would not expect of its network, a line each; that it is lossy first."""
        loss = [f"lossy: {self.lossy}; texts are not those of the whole model"] if self.lossy else []
        return loss + [note for each in wrapped(self.network) for note in getattr(each, "notes", [])]

    def make(self, drafter: str | Drafter) -> Drafter:
        """A drafter for one engine: of a name a new one, as generations may overlap.

        It knows what the model was trained for, and what earlier ones of the name found out.
        """
        if isinstance(drafter, str):
            return self._memories.give(drafter, make_drafter(drafter, self.network))
        if not callable(getattr(drafter, "propose", None)):
            raise UsageError(f'drafter={drafter!r} is neither a name like "ngram" nor a drafter')
        return drafter

    def _run(
        self, requests: Sequence[Request], drafter: Drafter, rows: int, settings: GenerationSettings
    ) -> Iterator[Piece]:
        """Admit as rows come free, stream what they say, release them; whatever ends this leaves the drafter clean.

        A keyboard interrupt comes through after the last pieces of the texts it cuts short.
        """
        samples = settings.num_return_sequences
        rows = max(min(rows, len(requests) * samples), samples)
        engine = self.engine(capacity=self._capacity(requests), rows=rows, drafter=drafter)
        waiting = list(enumerate(requests))[::-1]
        writers: dict[int, Writer] = {}
        try:
            while waiting or engine.busy:
                self._admit(engine, waiting, writers, settings)
                for emission in engine.step():
                    if emission.finish_reason is not None:
                        engine.release(emission.row)
                    yield from _written(writers, emission)
        except KeyboardInterrupt:
            yield from [writer.finish() for writer in writers.values()]
            raise
        finally:
            for row in writers.keys() - set(engine.free_rows):
                engine.release(row)
            self._memories.keep(drafter)

    def _admit(
        self,
        engine: Engine,
        waiting: list[tuple[int, Request]],
        writers: dict[int, Writer],
        settings: GenerationSettings,
    ) -> None:
        """Take in waiting requests, the last one first, while all samples of one find a row."""
        samples = settings.num_return_sequences
        while waiting and len(engine.free_rows) >= samples:
            index, request = waiting.pop()
            for sample, row in enumerate(engine.admit(request, samples=samples)):
                seed = derived_seed(request.sampling.seed, sample)
                writers[row] = self._writer(index * samples + sample, request, seed, settings.stops())

    def _capacity(self, requests: Sequence[Request]) -> int:
        context = self.network.context
        needed = (min(len(r.prompt) + r.max_new_tokens, context) for r in requests)
        return max(needed, default=0) + _SCRATCH

    def _writer(self, index: int, request: Request, seed: int, strings: tuple[str, ...]) -> Writer:
        return Writer(index, len(request.prompt), seed, self.tokenizer.decode, strings, self.lossy)


def wants(drafter: Drafter) -> bool:
    """Whether a drafter asks for the costs of steps."""
    return bool(getattr(drafter, "uses_costs", False))


def _written(writers: dict[int, Writer], emission: Emission) -> Iterator[Piece]:
    """The emission's piece, then its error; a finished text's writer is dropped before anything can go wrong."""
    writer = writers[emission.row]
    if emission.finish_reason is not None:
        del writers[emission.row]
    yield writer.write(emission)
    if emission.error is not None:
        raise emission.error
