"""A file that the script itself writes is never the stale one beside it, however it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from tests.imports.lines import at, line

TRAIN = "train.py --model_name_or_path gpt2 --per_device_train_batch_size 4"
HOSTS = f"deepspeed --hostfile hosts {TRAIN} --deepspeed z.json"
ZERO = f"deepspeed --num_gpus 8 {TRAIN} --deepspeed ds.json"
FILES = {"hosts": "stale slots=1\n", "z.json": '{"zero_optimization": {"stage": 1}}',
         "ds.json": '{"zero_optimization": {"stage": 1}}'}  # fmt: skip


@pytest.mark.parametrize(
    "script",
    [
        "{ echo 'a slots=8'; echo 'b slots=8'; } > hosts",
        'mk() { for i in $(seq 1 $1); do echo "n$i slots=8"; done; }\nmk 2 > hosts',
        'for n in a b; do echo "$n slots=8"; done > hosts',
        'rm -f hosts\nfor n in a b; do echo "$n slots=8" >> hosts; done',
        "cat > hosts <<EOF\na slots=8\nEOF\necho 'b slots=8' >> hosts",
        "(echo a slots=8; echo b slots=8) | tee hosts",
        "echo \"$(hostname) slots=8\" > hosts; echo 'b slots=8' >> hosts",
        "echo 'a slots=8' > h; echo 'b slots=8' >> h; mv h hosts",
    ],
)
def test_a_hostfile_that_the_script_writes(tmp_path: Path, script: str) -> None:
    assert at(line(tmp_path, f"{script}\n{HOSTS}", FILES), "cluster.gpus", "cluster.nodes") == [16, 2]
    mpi = f"{script}\nmpirun -np 16 --hostfile hosts python {TRAIN} --deepspeed z.json"
    assert at(line(tmp_path, mpi, FILES), "cluster.gpus", "cluster.nodes") == [16, 2]


def test_the_hostfile_that_deepspeed_takes_by_itself(tmp_path: Path) -> None:
    script = f'for n in a b; do echo "$n slots=8"; done > /job/hostfile\n{HOSTS.replace("--hostfile hosts", "")}'
    assert at(line(tmp_path, script, FILES), "cluster.gpus", "cluster.nodes") == [16, 2]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("scontrol show hostnames | sed 's/$/ slots=8/' > hosts", "is written by `sed s/$/ slots=8/` of the script"),
        ("{ scontrol show hostnames; } > hosts", "is written by `{ ...; } >hosts` of the script"),
        ("( scontrol show hostnames ) > hosts", "is written by `( ... ) >hosts` of the script"),
        ("while read h; do echo \"$h slots=8\"; done < nodes >> hosts", "`while read h; do ...; done <nodes >>hosts`"),
        ("for h in $(scontrol show hostnames); do echo \"$h slots=8\"; done > hosts", "is written by `for h in "),
        ("rm -f hosts\nfor h in $(scontrol show hostnames); do echo \"$h slots=8\" >> hosts; done",
         "is written by `echo $h slots=8` of the script, in a branch or a loop that only a run decides"),
        ("mk() { scontrol show hostnames; }\nmk > hosts", "is written by `mk` of the script"),
        ("mk() { scontrol show hostnames; } > hosts\nmk", "is written by `{ ...; } >hosts` of the script"),
        ("if grep -q x y; then echo 'a slots=8'; fi > hosts", "is written by `if ...; fi >hosts` of the script"),
        ("rm hosts", "is taken away by `rm hosts` of the script"),
        ("mv hosts old", "is taken away by `mv hosts old` of the script"),
        ("echo \"$N slots=8\" > hosts", "is written by the script, with '$N slots=8', of which only a run tells"),
    ],
)  # fmt: skip
def test_a_hostfile_that_only_a_run_tells(tmp_path: Path, script: str, says: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        line(tmp_path, f"{script}\n{HOSTS}", FILES)
    assert f"run.sh: hosts: {says}" in str(refused.value) or says in str(refused.value)
    assert "hosts" in str(refused.value)


def test_a_hostfile_that_is_not_needed(tmp_path: Path) -> None:
    script = f"scontrol show hostnames > hosts\n{HOSTS.replace('hosts', 'hosts --num_nodes 2 --num_gpus 4')}"
    assert at(line(tmp_path, script, FILES), "cluster.gpus", "cluster.nodes") == [8, 2]


@pytest.mark.parametrize(
    "script",
    [
        "{ echo '{\"zero_optimization\":'; echo '{\"stage\": 3}}'; } > ds.json",
        'mk() { echo "{\\"zero_optimization\\": {\\"stage\\": $1}}"; }\nmk 3 > ds.json',
        "cp t.json ds.json",
        "cp t.json tmp.json && mv tmp.json ds.json",
        "export STAGE=3\nenvsubst < e.json > ds.json",
        "STAGE=3 envsubst '$STAGE' < e.json > ds.json",
        "cat e.json | STAGE=3 envsubst | tee ds.json",
        'cat <<-EOF > ds.json\n\t{"zero_optimization":\n\t\t{"stage": $((1+2))}}\n\tEOF',
    ],
)
def test_a_configuration_that_the_script_writes(tmp_path: Path, script: str) -> None:
    files = {"t.json": '{"zero_optimization": {"stage": 3}}', "e.json": '{"zero_optimization": {"stage": ${STAGE}}}'}
    run = line(tmp_path, f"{script}\n{ZERO}", {**FILES, **files})
    assert at(run, "parallel.data_parallel") == ["zero3"]


@pytest.mark.parametrize("beside", [FILES, {}], ids=["stale", "none"])
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("jq '.a=1' base > ds.json", "ds.json: is written by `jq .a=1 base` of the script, which is not run"),
        ("jq '.a=1' base > t && mv t ds.json", "ds.json: is written by `jq .a=1 base` of the script"),
        ("cp base t.json; jq '.a=1' t.json > u; cp u ds.json", "ds.json: is written by `jq .a=1 t.json` of the script"),
        ("{ cat head; jq . base; } > ds.json", "ds.json: is written by `{ ...; } >ds.json` of the script"),
    ],
)
def test_a_configuration_that_jq_writes(tmp_path: Path, script: str, says: str, beside: dict[str, str]) -> None:
    with pytest.raises(ScenarioError) as refused:
        line(tmp_path, f"{script}\n{ZERO}", beside)
    assert says in str(refused.value)


@pytest.mark.parametrize("beside", [FILES, {}], ids=["stale", "none"])
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("jq '.a=1' base > ds.json", "ds.json: is written by `jq .a=1 base` of the script"),
    ],
)
def test_a_file_that_a_written_one_names(tmp_path: Path, script: str, says: str, beside: dict[str, str]) -> None:
    acc = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json"
    text = f"cat > acc.yaml <<EOF\n{acc}\nEOF\n{script}\naccelerate launch --config_file acc.yaml {TRAIN}"
    with pytest.raises(ScenarioError) as refused:
        line(tmp_path, text, beside)
    assert says in str(refused.value)
