"""Streamers get the prompt, then tokens as they are accepted, then the end."""

from functools import partial
from threading import Thread

import pytest
import torch
from generating import ONE, PADDED, call, knowing, network, ours, speaker
from transformers import TextIteratorStreamer, TextStreamer

import skipstone
from skipstone.errors import UsageError

MODEL = network().model


class Listener:
    def __init__(self) -> None:
        self.heard: list[torch.Tensor] = []
        self.ended = 0

    def put(self, value: torch.Tensor) -> None:
        assert not self.ended
        self.heard.append(value)

    def end(self) -> None:
        self.ended += 1


def test_a_streamer_hears_the_prompt_and_every_accepted_run_of_tokens():
    text = call(MODEL, ONE, max_new_tokens=14)
    listener = Listener()
    ours(MODEL, ONE, knowing(text, ONE, depth=4), max_new_tokens=14, streamer=listener)
    assert listener.ended == 1
    assert listener.heard[0].tolist() == ONE["input_ids"]
    assert [len(tokens) for tokens in listener.heard[1:]] == [5, 5, 4]
    assert torch.cat(listener.heard[1:]).tolist() == text[0, 5:].tolist()


def test_a_streamer_bound_to_decode_hears_the_prompt_too():
    listener = Listener()
    bound = partial(skipstone.decode, streamer=listener, drafter="none")
    text = call(MODEL, ONE, custom_generate=bound, max_new_tokens=3)
    assert listener.heard[0].tolist() == ONE["input_ids"]
    assert torch.cat(listener.heard[1:]).tolist() == text[0, 5:].tolist()
    assert listener.ended == 1


@pytest.mark.parametrize("skip_prompt", [False, True])
def test_a_text_streamer_prints_what_it_prints_for_transformers(capsys: pytest.CaptureFixture, skip_prompt: bool):
    model, tokenizer = speaker()
    settings = {"input_ids": [tokenizer.encode("The cat")], "max_new_tokens": 60, "eos_token_id": None}
    text = call(model, settings, streamer=TextStreamer(tokenizer, skip_prompt=skip_prompt))
    plain = capsys.readouterr().out
    ours(model, settings, knowing(text, settings), streamer=TextStreamer(tokenizer, skip_prompt=skip_prompt))
    assert capsys.readouterr().out == plain != ""


def test_a_text_iterator_streamer_can_be_read_from_another_thread():
    model, tokenizer = speaker()
    settings = {"input_ids": [tokenizer.encode("The cat")], "max_new_tokens": 60, "eos_token_id": None}
    text = call(model, settings)
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, timeout=20)
    thread = Thread(target=ours, args=(model, settings), kwargs={"streamer": streamer})
    thread.start()
    assert "".join(streamer) == tokenizer.decode(text[0, len(settings["input_ids"][0]) :])
    thread.join()


def test_a_streamer_shows_one_text_only():
    with pytest.raises(UsageError, match="streamer shows one text, and there are 3 rows"):
        ours(MODEL, PADDED, max_new_tokens=4, streamer=Listener())
