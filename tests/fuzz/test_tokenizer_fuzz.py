"""However a tokenizer or chat template is spoilt: an error of ours in one line, or one that works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from folders import change
from fuzzing import HOSTILE, cases, obeys, rng_of, spoil_bytes, spoil_json, tokenizer_only


@cases(100)
def test_values_of_the_tokenizer(folder: Path, seed: int) -> None:
    spoil_json(folder / "tokenizer.json", rng_of("tokenizer", seed))
    obeys(lambda: tokenizer_only(folder))


@cases(40)
def test_bytes_of_the_tokenizer(folder: Path, seed: int) -> None:
    spoil_bytes(folder / "tokenizer.json", rng_of("tokenizer", seed))
    obeys(lambda: tokenizer_only(folder))


@cases(80)
def test_values_of_the_tokenizer_config(folder: Path, seed: int) -> None:
    rng = rng_of("tokenizer_config", seed)
    keys = ["tokenizer_class", "auto_map", "bos_token", "eos_token", "chat_template", "model_max_length", "vocab_file"]
    keys += [
        "extra_special_tokens",
        "added_tokens_decoder",
        "additional_special_tokens",
        "tokenizer_file",
        "padding_side",
    ]
    keys += ["clean_up_tokenization_spaces", "fix_mistral_regex", "backend", "is_local", "legacy", "name_or_path", "x"]
    change(folder / "tokenizer_config.json", **{k: rng.choice(HOSTILE) for k in rng.sample(keys, rng.randint(1, 3))})
    obeys(lambda: tokenizer_only(folder))


@pytest.mark.parametrize(
    "template",
    [
        *(
            "",
            "{{",
            "{% for %}",
            "{{ x.y.z }}",
            "{{ 1 / 0 }}",
            "{{ raise_exception('a\nb') }}",
            "{% include '/etc/passwd' %}",
        ),
        *(
            "{{ ''.__class__.__mro__ }}",
            "{{ messages.__init__.__globals__ }}",
            "{{ lipsum.__globals__['os'].system('x') }}",
        ),
        *("{{ cycler.__init__.__globals__.os.popen('id').read() }}", "{{ self.__init__.__globals__ }}"),
        *("{% for i in range(10**9) %}x{% endfor %}", "{{ 'a' * 10**11 }}", "{{ 10 ** 10 ** 10 }}", "\0", "é" * 10**5),
        *(
            "{{ messages[99].content }}",
            "{% set x = messages.append(1) %}",
            "{{ messages | tojson }}",
            "{% macro a() %}",
        ),
        *("{% macro a(n) %}{{ a(n) }}{% endmacro %}{{ a(1) }}", "{{ namespace.__class__ }}", "{% extends 'x' %}"),
        *(
            "{{ '%s' | format(messages) }}",
            "{{ strftime_now('%Y' * 9999) }}",
            "{{ messages | map('attr', '__class__') | list }}",
        ),
        *(
            "{" * 5000,
            "{% if 1 %}" * 200,
            "{{ [[[[" * 100,
            "{% generation %}{% endgeneration %}",
            "{{ bos_token.__add__ }}",
        ),
        *(3, None, [], {}, {"default": "{{ 1/0 }}"}, [{"name": "default", "template": "x"}], [{"name": 3}], True),
    ],
)
def test_chat_templates(folder: Path, template: Any) -> None:
    if isinstance(template, str):
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    else:
        (folder / "chat_template.jinja").unlink()
        change(folder / "tokenizer_config.json", chat_template=template)
    obeys(lambda: tokenizer_only(folder))
