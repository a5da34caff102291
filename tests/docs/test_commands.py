"""Every simgpu command in a code block of docs/ runs, in the order of its page, on files such as the page speaks of."""

import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import simgpu
from tests.validate.tables import write_table

__all__ = ["simgpu"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PIPELINE = """name: mine
model: {stages: 4, forward_ns: 1 ms, backward_ns: 2 ms}
cluster: {topology: dgx-a100, gpus: 4}
training: {micro_batch_size: 1, global_batch_size: 8}
parallel: {pp: 4}
network: free
measured: {step_time_s: 0.033, source: a stopwatch}
"""
MODEL = """name: mine
model: llama-2-7b
cluster: {topology: dgx-a100, gpus: 8}
training: {sequence_length: 1024, micro_batch_size: 1, global_batch_size: 64, precision: bf16}
parallel: {data_parallel: distributed_optimizer}
"""
COLLECTIVES = """id,op,gpu,ranks,nodes,intra_link,size_bytes,time_us
a,all_reduce,A100-SXM4-80GB,8,1,NVLink3 via NVSwitch,1048576,60
"""
PRODUCTS = "gpu,dtype,m,n,k,time_us\nH100-SXM5-80GB,bf16,8192,8192,8192,1600\n"
NCCL_TESTS = """# nThread 1 nGpus 2 minBytes 8 maxBytes 1 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid 7 on box device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid 7 on box device  1 [0x0b] NVIDIA A100-SXM4-80GB
 1048576 262144 float sum -1 30.0 1.0 1.0 0 25.0 1.0 1.0 0
"""
MATRIX = "\t" + "\t".join(f"GPU{i}" for i in range(8)) + "\tCPU Affinity\n"
MATRIX += "".join(
    "\t".join([f"GPU{i}", *("X" if i == j else "NV18" for j in range(8)), "0-63"]) + "\n" for i in range(8)
)
FILES = {
    "ops.md": {"mine.yaml": MODEL, "measured.csv": PRODUCTS},
    "collective.md": {"measured.csv": COLLECTIVES, "all_reduce.log": NCCL_TESTS},
    "topologies.md": {"topo.txt": MATRIX},
    "export.md": {"best.yaml": MODEL},
    "validation.md": {"mine.yaml": PIPELINE, "published/one.yaml": PIPELINE},
    "check.md": {"train.log": "elapsed time per iteration (ms): 1500.0 |\n"},
    "import.md": {
        "ds_config.json": '{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, '
        '"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}',
        "accelerate.yaml": "distributed_type: DEEPSPEED\nnum_processes: 8\nnum_machines: 1\n"
        "deepspeed_config: {deepspeed_config_file: ds_config.json}\n",
        "pretrain_gpt.sh": (ROOT / "tests" / "imports" / "configs" / "megatron.sh").read_text(encoding="utf-8"),
    },
}


def commands(page):
    found, language = [], None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            language = None if language is not None else line.removeprefix("```")
        elif language in ("", "sh") and line.startswith("simgpu "):
            found.append(line)
    return found


PAGES = {page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md")) if "gallery" not in page.parts}
SPEAKING = [name for name, page in PAGES.items() if commands(page)]


def test_there_are_some():
    assert sum(len(commands(PAGES[name])) for name in SPEAKING) >= 34
    assert set(FILES) <= set(SPEAKING)


@pytest.mark.parametrize("name", SPEAKING)
def test_the_commands_of_a_page(name, simgpu, tmp_path):
    for file, text in FILES.get(name, {}).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "topologies" / "dgx-a100.yaml", tmp_path / "my-box.yaml")
    if name == "validation.md":
        write_table(tmp_path / "runs.csv", [{}])
        write_table(tmp_path / "more.csv", [{"id": "two", "tier": "B"}])
    if name == "schedules.md":
        (tmp_path / "mine.csv").write_text(simgpu("schedule", "zbv", "-p", "2", "-m", "4", "--format", "csv").out)
    for command in commands(PAGES[name]):
        outcome = simgpu(*shlex.split(command, comments=True)[1:])
        assert outcome.code == 0, (command, outcome.err)
        assert outcome.out or outcome.err
