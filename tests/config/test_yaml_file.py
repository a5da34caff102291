import pytest

from simgpu.errors import ScenarioError
from simgpu.io.text_file import LARGEST_FILE_BYTES
from simgpu.io.yaml_file import parse_yaml, parse_yaml_value, read_yaml


def refusal(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse_yaml(text, "x.yaml")
    assert len(caught.value.issues) == 1
    return str(caught.value)


def test_yaml_is_version_1_2():
    data = parse_yaml("a: 5e8\nb: 1e-6\nc: no\nd: 12:30\ne: 017\nf: 0x1F\ng: 2026-11-29\nh: 1_000\ni: ~\n", "x").data
    assert data == {
        "a": 5e8, "b": 1e-6, "c": "no", "d": "12:30", "e": 17, "f": 31, "g": "2026-11-29", "h": 1000, "i": None
    }  # fmt: skip


def test_every_field_keeps_its_line():
    file = parse_yaml("a: 1\nb:\n  c: [1,\n      2]\n\n  d: {e: 3}\n", "x")
    assert file.line(("a",)) == 1
    assert file.line(("b", "c")) == 3
    assert file.line(("b", "c", 1)) == 4
    assert file.line(("b", "d", "e")) == 6
    assert file.line(("b", "absent")) == 2
    assert file.line(("absent",)) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "x.yaml: is empty"),
        ("# only a comment\n", "x.yaml: is empty"),
        ("- a\n- b\n", "x.yaml:1: holds a list, not a mapping"),
        ("\njust words\n", "x.yaml:2: holds a single value"),
        ("a: 1\nb: 2\na: 3\n", "x.yaml:3: a: is given twice, first in line 1"),
        ("a:\n  b: 1\n  b: 2\n", "x.yaml:3: a.b: is given twice, first in line 2"),
        ("a:\n\tb: 1\n", "x.yaml:2: is not valid YAML"),
        ("a: [1, 2\nb: 3\n", "is not valid YAML"),
        ("a: 'open\n", "is not valid YAML"),
        ("a: 1\n---\nb: 2\n", "is not valid YAML"),
        ("a: *nowhere\n", "is not valid YAML"),
        ("a: !!python/object/apply:os.system [echo]\n", "has the tag !!python/object/apply:os.system"),
        ("a: !secret 1\n", "has the tag !secret"),
        ("a: &x [1]\nb: {<<: *x}\n", "x.yaml:2: b: merge keys"),
        ("a: &x\n  b: *x\n", "refers to itself"),
        ("? [1, 2]\n: 3\n", "field name that is no text"),
        ("a: \x00\n", "is not YAML text"),
        ("a: " + "[" * 200 + "]" * 200, "nested too deeply"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: " + "9" * 5000, "no number that can be read"),
    ],
)
def test_a_bad_file_gives_one_issue_with_its_line(text, words):
    assert words in refusal(text)


def test_tabs_are_named():
    assert "indent with spaces" in refusal("a:\n\tb: 1\n")


def test_an_alias_bomb_is_refused_and_honest_aliases_are_not():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 9):
        bomb += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    assert "expands to more than" in refusal(bomb)
    assert parse_yaml("a: &x [1, 2]\nb: *x\n", "x").data == {"a": [1, 2], "b": [1, 2]}


def test_unreadable_files(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        read_yaml(tmp_path / "absent.yaml")
    with pytest.raises(ScenarioError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"a: 1\nb: \xff\xfe\x00")
    with pytest.raises(ScenarioError, match=r"b\.yaml:2: is not UTF-8 text"):
        read_yaml(binary)
    large = tmp_path / "l.yaml"
    large.write_bytes(b"#" * (LARGEST_FILE_BYTES + 1))
    with pytest.raises(ScenarioError, match="is too large"):
        read_yaml(large)


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(path).data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4), ("5e8", 5e8), ("true", True), ("no", "no"), ("[1, 2]", [1, 2]), ("{a: 1}", {"a": 1}), ("null", None)],
)
def test_single_values(text, value):
    assert parse_yaml_value(text, "--set") == value
