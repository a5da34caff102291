"""Shell scripts are read, never run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.errors import ScenarioError
from simgpu.io.foreign.kinds import read_foreign
from simgpu.io.foreign.launch_words import find_launch_line
from simgpu.io.foreign.script_arguments import arguments_mapping
from simgpu.io.foreign.shell import read_commands
from simgpu.io.foreign.shell_arithmetic import whole_number
from simgpu.io.foreign.shell_quotes import open_quote


def words(script: str) -> tuple[str, ...]:
    return read_commands(script)[-1].words


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("A=1\necho $A ${A} ${B:-2} ${C-3}", ("echo", "1", "1", "2", "3")),
        ("A=1\nE=\necho ${A:+x} ${B:+y} ${E:+z} ${E+w} ${A:+--a $A}", ("echo", "x", "w", "--a", "1")),
        ("A=(x y z)\necho ${#A[@]} $((${#A[@]} * 2)) ${#B[@]}", ("echo", "3", "6", "${#B[@]}")),
        ("A='$B'\necho \"$A\" '$A'", ("echo", "$B", "$A")),
        ("N=4\necho $((N * 2)) $(( (N+2)/4 ))", ("echo", "8", "1")),
        ("A=(x 'y z')\nA+=(w)\necho ${A[@]} \"${A[@]}\"", ("echo", "x", "y", "z", "w", "x", "y z", "w")),
        ("echo a \\\n  b # c", ("echo", "a", "b")),
        ('OPTS="--a 1 \\\n --b 2"\necho $OPTS', ("echo", "--a", "1", "--b", "2")),
        ("echo $(date) `date` $1 $UNSET", ("echo", "$(date)", "`date`", "$1", "$UNSET")),
        ("echo a > log.txt 2>&1", ("echo", "a")),
        ("cat <<EOF > x\ntorchrun no.py\nEOF\necho done", ("echo", "done")),
        ("A=1\nif [ -f x ]; then\nA=2\nfi\necho $A", ("echo", "$A")),
        ("A=1\nif [ -f x ]; then\nA=1\nfi\necho $A", ("echo", "1")),
        ('A=b\nif [ "$A" = "a" ]; then\nB=1\nelif [[ $A == b ]]; then\nB=2\nelse\nB=3\nfi\necho $B', ("echo", "2")),
        ("A=8\nB=()\nif [ $A -gt 4 ] && [ $A -lt 9 ]; then B+=(--x y); fi\necho ${B[@]}", ("echo", "--x", "y")),
        ('A=1\n[ -z "$A" ] && A=2\n[[ $A == 1 ]] || A=3\necho $A', ("echo", "1")),
        ('A=1\nif [ $A -eq 2 ]; then\nif [ -n "$U" ]; then A=3; else A=4; fi\nfi\necho $A', ("echo", "1")),
        ('A=(--x "--y z")\necho ${A[@]}', ("echo", "--x", "--y", "z")),
        ("echo --c='{\"x\": 1}'", ("echo", '--c={"x": 1}')),
    ],
)
def test_expansion(script: str, expected: tuple[str, ...]) -> None:
    assert words(script) == expected


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    script = f"X=$(touch {mark})\ntouch {mark}\nY=`touch {mark}`\ntorchrun --nproc_per_node 2 t.py --a $X"
    assert find_launch_line(script, "run.sh").options == {"nproc_per_node": "2"}
    assert not mark.exists()


def test_environment_in_front_and_exported() -> None:
    command = read_commands("export A=1\nB=2\nC=3 python t.py")[-1]
    assert command.environment == {"A": "1", "C": "3"}


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    for command in read_commands(text):
        assert command.words


@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(0, 1000))
def test_arithmetic(a: int, b: int, c: int) -> None:
    assert whole_number(f"({a} + {c}) * {b} / {b} % {b}") == (a + c) % b
    assert whole_number(f"{a} / 0") is None


@pytest.mark.parametrize("formula", ["", "a", "1 +", "9 ** 99", "f(1)", "1.5", "'a' * 3", "10 ** 10 * 10 ** 10"])
def test_what_is_no_arithmetic(formula: str) -> None:
    assert whole_number(formula) is None


def test_arguments_by_name() -> None:
    line = ["--a-b", "1", "--c=2", "--flag", "--list", "x", "y", "-p", "3", "t.batch=4", "--neg", "-1"]
    assert arguments_mapping(line) == {
        "a_b": "1", "c": "2", "flag": True, "list": ["x", "y"], "p": "3", "t": {"batch": "4"}, "neg": "-1",
    }  # fmt: skip


def test_what_a_command_would_print_gives_no_words() -> None:
    script = "NAME=$(python name.py --fp16 --bf16 True)\ntorchrun --run_name $NAME --nnodes 4 train.py"
    (command,) = [one for one in read_commands(script) if one.words[0] == "torchrun"]
    assert command.words[-3:] == ("--nnodes", "4", "train.py")
    assert "--fp16" not in command.words


def test_a_variable_that_doubles_itself_stops_growing() -> None:
    lines = ["A=" + 10 * "x", *12 * ["A=" + 10 * "$A"], *30 * ['B=("${B[@]}" "${B[@]}" x)'], "torchrun $A ${B[@]}"]
    (command,) = read_commands("\n".join(lines))
    assert sum(map(len, command.words)) < 20_000_000


def test_words_that_an_if_adds_to_a_variable_are_left_out() -> None:
    script = 'ARGS="--micro-batch-size 2"\nif [ -n "$EXTRA" ]; then ARGS="$ARGS --sequence-parallel"; fi\nrun $ARGS'
    command = read_commands(script)[-1]
    assert command.words == ("run", "--micro-batch-size", "2")
    assert command.left_out == ("--sequence-parallel",)


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ('A=1\nB=2\ntorchrun --nproc_per_node 2 t.py --name "x --bf16\n', 3),
        ("cat <<EOF > x\nit's\nEOF\ntorchrun --nproc_per_node 2 t.py --name 'x --bf16\n", 4),
        ('torchrun --nproc_per_node 2 t.py --num-layers 2 --tensor-model-parallel-size 2 --name "x\n', 1),
        ('A="--bf16\ntorchrun --nproc_per_node 2 t.py\n', 1),  # which swallows the launch line
    ],
)
def test_a_quote_that_is_never_closed_has_its_line(script: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(script, encoding="utf-8")
    with pytest.raises(ScenarioError, match=f"run.sh:{line}: has a quote that is never closed; fix: close it"):
        read_foreign(path)


@given(st.text(alphabet="ab '\"\\$(){}#\n<>", max_size=60))
def test_quotes_of_any_text_are_counted(text: str) -> None:
    line = open_quote(text)
    assert line is None or 1 <= line <= text.count("\n") + 1
