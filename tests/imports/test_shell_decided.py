"""What a shell script does not decide itself is refused by name, left open, or said: it is never taken as done."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.launch_words import LaunchLine, find_launch_line

GUARDS = (
    '[ "$NNODES" -gt 1 ]', "[ -f big.flag ]", '[ "$(hostname)" = x ]', "[[ $HOSTNAME == dgx* ]]", '[ -n "$JOB" ]',
    "nvidia-smi | grep -q H100", "command -v srun > /dev/null", '! [ "$MODE" = small ]', "grep -q big f",
)  # fmt: skip
FORMS = ("{} && TP=8", "if {}; then TP=8; fi", "{} || TP=8", "{} && {{ TP=8; }}", "{} && TP=8 || TP=4")
RECOMPUTED = "--recompute-granularity full"


def line(folder: Path, script: str, **files: str) -> LaunchLine:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return find_launch_line(script, "run.sh", folder)


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_guard_that_only_a_run_decides_leaves_the_value_open(form: str, guard: str, tmp_path: Path) -> None:
    script = f"TP=2\n{form.format(guard)}\ntorchrun t.py --tp $TP"
    assert line(tmp_path, script).arguments == ("--tp", "$TP")


@pytest.mark.parametrize("guard", GUARDS)
def test_options_behind_such_a_guard_are_said(guard: str, tmp_path: Path) -> None:
    found = line(tmp_path, f'ARGS="--bf16"\n{guard} && ARGS="$ARGS {RECOMPUTED}"\ntorchrun t.py $ARGS')
    assert found.arguments == ("--bf16",)
    assert f"arguments that an if of the script decides are left out: {RECOMPUTED}" in found.notes


@pytest.mark.parametrize(
    "script",
    [
        'if grep -q x f; then ARGS="--bf16"; else ARGS="--fp16"; fi\ntorchrun t.py $ARGS',
        "case $(hostname) in a) ARGS=(--bf16);; *) ARGS=(--fp16);; esac\ntorchrun t.py ${ARGS[@]}",
    ],
)
def test_options_of_which_one_run_takes_either_are_refused(script: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"ARGS, which differs between branches of the script; fix|only a run"):
        line(tmp_path, script)


@pytest.mark.parametrize(
    "script",
    [
        "grep -q x f && TP=2 || TP=4\ntorchrun t.py --tp ${TP:-1}",
        "if [ -f f ]; then TP=8; fi\ntorchrun t.py --tp ${TP:-1}",
        "for i in $(ls); do TP=$i; done\ntorchrun t.py --tp ${TP:-1}",
        "for i in 1 2; do TP=$i; grep -q x f && break; done\ntorchrun t.py --tp ${TP:-1}",
        "f() { TP=2; grep -q x f && return; TP=4; }\nf\ntorchrun t.py --tp ${TP:-1}",
        "read TP < config\ntorchrun t.py --tp ${TP:-1}",
        "mapfile -t A < list; TP=${#A[@]}\ntorchrun t.py --tp $TP",
        "mapfile -t A < list; TP=${A[1]}\ntorchrun t.py --tp $TP",
        "printf -v TP %05.2f 4\ntorchrun t.py --tp $TP",
        "TP=$N; ((TP*=2))\ntorchrun t.py --tp $TP",
        "N=3; TP=$((--N))\ntorchrun t.py --tp $TP",
    ],
)
def test_what_only_a_run_tells_has_no_value(script: str, tmp_path: Path) -> None:
    (word,) = line(tmp_path, script).arguments[1:]
    assert word.startswith("$")


@pytest.mark.parametrize("reads", ["source ./conf.sh", ". ./conf.sh", "set -a; source conf.sh",
                                   "export $(cat conf.sh | xargs)", "export $(grep -v '^#' conf.sh | xargs)"])  # fmt: skip
@pytest.mark.parametrize("before", ["", "TP=1\n"])
def test_a_file_that_the_script_reads(reads: str, before: str, tmp_path: Path) -> None:
    script = f"{before}{reads}\ntorchrun t.py --tp ${{TP:-1}} --master_port $MASTER_PORT"
    with pytest.raises(
        ScenarioError, match=r"TP, which .*conf\.sh may set, which is not beside the script; fix: write"
    ):
        line(tmp_path, script)
    again = f"{before}{reads}\nTP=2\ntorchrun t.py --tp $TP"
    assert line(tmp_path, again).arguments == ("--tp", "2")
    assert line(tmp_path, script, conf__sh="TP=4\n").arguments[:2] == ("--tp", "4")


def test_what_sets_up_an_environment_is_noted(tmp_path: Path) -> None:
    found = line(tmp_path, "TP=2\nsource ~/venv/bin/activate\ntorchrun t.py --tp $TP")
    assert found.arguments == ("--tp", "2")
    assert "what ~/venv/bin/activate sets is not in the file, and is left out" in found.notes


@pytest.mark.parametrize(
    ("script", "names"),
    [
        (
            "sed -i 's/2/3/' ds.json\ndeepspeed t.py --deepspeed ds.json",
            "ds.json: is written by `sed -i s/2/3/ ds.json`",
        ),
        (
            "jq .a=3 ds.json > ds3.json\ndeepspeed t.py --deepspeed ds3.json",
            "ds3.json: is written by `jq .a=3 ds.json`",
        ),
        ("yq -i .a=3 ds.json\ndeepspeed t.py --deepspeed=ds.json", "ds.json: is written by `yq -i .a=3 ds.json`"),
        ("python -c \"json.dump(c, open('ds.json', 'w'))\"\ndeepspeed t.py --deepspeed ./ds.json", "`python -c`"),
        ("python - <<EOF\njson.dump(c, open('ds.json', 'w'))\nEOF\ndeepspeed t.py --deepspeed ds.json", "`python -`"),
        ("envsubst < t.json > ds.json\ndeepspeed t.py --deepspeed ds.json", "ds.json: is written by `envsubst`"),
        (
            "grep -q x f && echo '{}' > ds.json\ndeepspeed t.py --deepspeed ds.json",
            "a branch or a loop that only a run decides",
        ),
    ],
)
def test_a_file_that_a_command_changes_is_refused(script: str, names: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as refused:
        line(tmp_path, script, ds__json='{"a": 2}')
    assert names in str(refused.value)


@pytest.mark.parametrize(
    "script",
    [
        "echo '{\"a\": 2}' > ds.json",
        "printf '%s\\n' '{\"a\": 2}' > ds.json",
        "cat <<'EOF' | tee ds.json\n{\"a\": 2}\nEOF",
        "cp t.json ds.json",
        "sed -i s/3/2/ ds.json\ncat t.json > ds.json",
        'f() {\ncat > $1 <<EOF\n{"a": $N}\nEOF\n}\nN=2\nf ds.json',
    ],
)
def test_a_file_that_the_script_writes_is_the_one(script: str, tmp_path: Path) -> None:
    found = line(tmp_path, f"{script}\ndeepspeed t.py --deepspeed ds.json", t__json='{"a": 2}\n')
    assert found.written["ds.json"].strip() == '{"a": 2}'


BUSY = (
    "f() { f; }\nf\n", "while true; do :; done\n", "source run.sh\n", 'eval "$A"\n' * 9, "f() { echo $(f) $(f); }\nX=$(f)\n",
    "f() { f | f; }\nX=$(f)\n", f"X={'$(nproc ' * 14}{')' * 14}\n", f"[[ {'a' * 190} == *(*a|*aa)b ]] && X=1\n",
    f"[[ {'a' * 190} == {'*a' * 20}b ]] && X=1\n", f"X=({'{1..99}' * 6})\n", "X=$((9**9**9)) Y=$((1<<99))\n",
)  # fmt: skip


@pytest.mark.parametrize("deep", BUSY)
def test_no_script_keeps_the_reader_busy(deep: str, tmp_path: Path) -> None:
    script = f"A='eval \"$A\"'\n{deep}torchrun t.py --tp 2"
    assert line(tmp_path, script, run__sh=script).arguments == ("--tp", "2")
