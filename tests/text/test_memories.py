"""What drafters found out is kept by their name and options, of so many as do no harm."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from skipstone.text.memories import Memories


@dataclass
class Remembering:
    memory: list[int] = field(default_factory=list)

    def recall(self, memory: list[int]) -> None:
        self.memory = memory


class WithPreset:
    preset_task = "a"


def test_a_drafter_goes_on_from_what_one_of_its_name_and_options_found() -> None:
    memories = Memories()
    first, second, other = Remembering(), Remembering(), Remembering()
    for spec, drafter in (("a", first), ("a", second), ("b", other)):
        memories.give(spec, drafter)
    assert second.memory is first.memory
    assert other.memory is not first.memory


def test_presets_are_looked_at_by_one_thread_at_a_time() -> None:
    memories = Memories()
    with ThreadPoolExecutor(2) as pool:
        with memories._lock:
            waiting = [pool.submit(memories.told), pool.submit(memories.give, "exit:task=a", WithPreset())]
            assert not wait(waiting, timeout=0.2).done
        assert not wait(waiting, timeout=30).not_done


def test_a_label_for_each_user_makes_no_memory_grow_for_ever_and_what_is_used_stays() -> None:
    memories, drafter = Memories(), Remembering()
    memories.give("skip", drafter)
    for user in range(200):
        memories.give(f"skip:task={user}", Remembering())
        memories.give("skip", Remembering())
    assert len(memories._by_spec) <= 64
    again = Remembering()
    memories.give("skip", again)
    assert again.memory is drafter.memory
