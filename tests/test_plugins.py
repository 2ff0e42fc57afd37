"""Drafters by name: ours, and one from a package that stands beside this file."""

import sys
from pathlib import Path

import pytest
from decoding import network

from skipstone.errors import UsageError
from skipstone.plugins import describe, drafter_names, drafter_type, make_drafter
from skipstone.testing import check_drafter


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch):
    """A package with a drafter, installed as far as Python can tell."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "plugin_package")


def test_our_own_drafters_are_found_as_plugins_are():
    assert {"none", "ngram", "skip", "exit"} <= set(drafter_names())


@pytest.mark.usefixtures("plugin")
def test_a_drafter_from_another_package_is_found_and_keeps_the_contract():
    assert "echo" in drafter_names()
    check_drafter(lambda net: make_drafter("echo:times=3", net))


@pytest.mark.usefixtures("plugin")
def test_options_are_read_by_their_types():
    options = make_drafter(" echo:times=5,eager=true,weight=1e-3,label=a=b ", network()).options
    assert (options.times, options.eager, options.weight, options.label) == (5, True, 1e-3, "a=b")
    assert make_drafter("echo", network()).options == drafter_type("echo").Options()


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("eco", '"eco" is not installed: did you mean "echo"?'),
        ("zzz", '"zzz" is not installed: known: .*echo.*exit.*ngram.*none.*skip'),
        ("echo:time=3", 'no option "time": did you mean "times"?'),
        ("none:depth=3", 'no option "depth": it takes none'),
        ("echo:times", 'option "times" has no value: write times=…'),
        ("echo:times=1,times=2", 'option "times" is given twice'),
        ("echo:times=two", "times='two' is not a whole number"),
        ("echo:weight=heavy", "weight='heavy' is not a number"),
        ("echo:eager=yes", "eager='yes' is not true or false"),
        ("broken", r'drafter "broken" \(echo_drafter:NoSuchDrafter\) does not load'),
        ("absent", r'drafter "absent" \(no_such_module:Drafter\) does not load: No module'),
    ],
)
def test_what_cannot_be_understood_is_refused_with_a_hint(spec: str, message: str):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        make_drafter(spec, network())


@pytest.mark.usefixtures("plugin")
def test_a_drafter_describes_itself():
    summary, options = describe("echo")
    assert summary == "Repeats the last token; a sample plugin."
    assert [(o.name, o.type, o.default) for o in options] == [
        ("times", "int", 2),
        ("eager", "bool", False),
        ("weight", "float", 0.5),
        ("label", "str", "echo"),
    ]
    assert options[0].help == "how often"


@pytest.mark.parametrize("name", ["none", "ngram", "skip", "exit"])
def test_each_of_our_drafters_says_what_it_and_its_options_do(name: str):
    summary, options = describe(name)
    assert summary.endswith(".")
    assert all(option.help and option.default is not None for option in options)


def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str) -> None:
    """A third party's package ``odd_plugin`` with the drafter ``odd``."""
    (tmp_path / "odd_plugin.py").write_text(source)
    info = tmp_path / "odd_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd_plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[skipstone.drafters]\nodd = odd_plugin:Odd\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_plugin", raising=False)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise ValueError('boom')", "does not load: boom"),
        ("class Odd: pass", "has no dataclass Options"),
        ("import nowhere_to_be_found", "does not load: No module named"),
    ],
)
def test_a_third_partys_fault_is_named_as_theirs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, says: str
):
    _installed(monkeypatch, tmp_path, source)
    with pytest.raises(UsageError, match=says):
        describe("odd")


def test_a_drafter_without_a_docstring_is_described_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    source = "from dataclasses import dataclass\nclass Odd:\n    @dataclass\n    class Options:\n        pass\n"
    _installed(monkeypatch, tmp_path, source)
    assert describe("odd") == ("(no description)", [])
