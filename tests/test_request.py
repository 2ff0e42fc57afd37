"""Requests no model could serve."""

import pytest

from skipstone.errors import RequestError
from skipstone.request import Request


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request([]), "the prompt is empty"),
        (Request([1], max_new_tokens=0), "max_new_tokens=0 generates nothing"),
        (Request([1], max_new_tokens=2, generated=[3, 4]), "2 tokens are generated already"),
        (Request([1], logprobs=-1), "logprobs=-1 is out of range"),
        (Request([1], logprobs=11), "logprobs=11 is out of range: use 0 to 10"),
        (Request([1] * 20), "has 20 tokens and the model's context holds 20: shorten the prompt to 19"),
        (Request([1] * 10, generated=[1] * 10), "has 20 tokens"),
        (Request([1, 10]), "token id 10 is not in the model's vocabulary of 10"),
        (Request([-1]), "token id -1"),
        (Request([1], generated=[12]), "token id 12"),
    ],
)
def test_what_cannot_be_served_is_refused_in_words(request_: Request, message: str):
    with pytest.raises(RequestError, match=message):
        request_.check(vocab_size=10, context=20)


def test_the_largest_request_is_served():
    Request([9] * 19, 1, logprobs=10).check(vocab_size=10, context=20)
