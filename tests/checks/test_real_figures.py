"""Figures of every collected training log, NCCL log and trace, as somebody who looked into the files reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.kineto_reader import read_kineto
from simgpu.io.nccl_log import read_nccl_log
from simgpu.io.training_log import read_training_log

INPUTS = Path(__file__).parents[3] / "shared" / "inputs"
pytestmark = pytest.mark.skipif(not INPUTS.is_dir(), reason="the collected files are not here")
TRAINING = {
    "hf-trainer-deepspeed-zero3-n16.log.gz": ("samples_per_s", 3.663),
    "jeanzay-FSDP_sAC_h100_14B_1690788.log": ("step_s", 2.60255),
    "jeanzay-FSDP_sAC_h100_14B_1690869.log": ("step_s", 2.56457),
    "jeanzay-FSDP_sAC_h100_14B_1691381.log": ("step_s", 4.63177),
    "jeanzay-FSDP_sAC_h100_32B_1690289.log": ("step_s", 4.86562),
    "jeanzay-FSDP_sAC_h100_32B_1691223.log": ("step_s", 9.63621),
    "jeanzay-FSDP_sAC_h100_72B_1691389.log": ("step_s", 21.95462),
    "jeanzay-fsdp2_a100_32B_1538823.log": ("step_s", 60.59163),
    "jeanzay-fsdp2_a100_72B_1538824.log": ("step_s", 142.63193),
    "megatron-ds3d-n16-ds-on.log.gz": ("step_s", 136.957),  # the first of 48 steps took 159.8 s
    "megatron-gpt2-n32-tp4-pp32.log.gz": ("step_s", 4.2138),  # 10.5 s in the first
    "megatron-gpt2-n4-tp4-pp4.log.gz": ("step_s", 1.3806),
    "megatron-gpt2-n8-tp4-pp8.log.gz": ("step_s", 1.61775),
    "superbench-megatron-deepspeed.log.gz": ("step_s", 75.216),
}
NCCL = {
    "superbench-nccl_allgather.log": ("all_gather", 8, 8589934592, 32669.0),
    "superbench-nccl_broadcast.log": ("broadcast", 8, 8589934592, 36599.0),
}
SETTINGS = {"a100-4node-allreduce-nccl-info.txt.gz": "2.10.3", "v100-16node-allreduce-nccl-info.txt.gz": "2.7.8"}
NO_NCCL = ("superbench-ibstat.txt", "superbench-nvbandwidth.log")
TRACES = {  # rank, world, kernels and copies of the GPU, NCCL's among them, and their microseconds
    "hta-16gpu-a100-reduce-scatter-rank0": (0, 16, 7747, 80, 190_345),
    "hta-ddp-2gpu-a100-pgconfig-rank0": (0, 2, 3774, 21, 46_876),
    "hta-dlrm-ddp-a2a-2gpu-v100-rank1": (1, 2, 15632, 64, 251_341),
    "hta-world128-sampled-rank1": (1, 128, 1154, 10, 379_053),
    "param-dlrm-8xv100-rank4": (4, 8, 273, 8, 6_587),
    "tracelens-mi300-resnet-activation-checkpoint": (0, 8, 3653, 17, 71_517),
    "kineto-tb-resnet50-v100-steps": (None, None, 9096, 0, 0),
}


def test_every_log_is_here() -> None:
    assert {path.name for path in (INPUTS / "training-logs").iterdir()} == {*TRAINING}
    assert {path.name for path in (INPUTS / "nccl-logs").iterdir()} == {*NCCL, *SETTINGS, *NO_NCCL}


@pytest.mark.parametrize(("name", "figure"), TRAINING.items(), ids=TRAINING.keys())
def test_training_logs(name: str, figure: tuple[str, float]) -> None:
    found = read_training_log(INPUTS / "training-logs" / name)
    assert (found.quantity, found.value) == (figure[0], pytest.approx(figure[1], rel=1e-4))


@pytest.mark.parametrize(("name", "figures"), NCCL.items(), ids=NCCL.keys())
def test_output_of_nccl_tests(name: str, figures: tuple[str, int, int, float]) -> None:
    (test,) = read_nccl_log(INPUTS / "nccl-logs" / name).tests
    kind, ranks, size_bytes, time_us = figures
    assert (test.kind, test.ranks, test.times_us[size_bytes]) == (kind, ranks, time_us)


@pytest.mark.parametrize(("name", "version"), SETTINGS.items(), ids=SETTINGS.keys())
def test_logs_of_nccl(name: str, version: str) -> None:
    log = read_nccl_log(INPUTS / "nccl-logs" / name)
    assert (log.version, log.network, log.tests) == (version, "IB", ())


@pytest.mark.parametrize("name", NO_NCCL)
def test_what_is_no_log_of_nccl_is_refused(name: str) -> None:
    with pytest.raises(
        ScenarioError, match="holds neither a table of nccl-tests nor a line of NCCL's own log"
    ) as caught:
        read_nccl_log(INPUTS / "nccl-logs" / name)
    assert len(caught.value.issues) == 1


@pytest.mark.parametrize(("name", "figures"), TRACES.items(), ids=TRACES.keys())
def test_traces(name: str, figures: tuple[int | None, int | None, int, int, int]) -> None:
    found = read_kineto(INPUTS / "kineto-traces" / f"{name}.json.gz")
    moved = [event for event in found.events if event.kind == "collective"]
    microseconds = round(sum(event.end_ns - event.start_ns for event in moved) / 1000)
    assert (found.rank, found.world_size, len(found.events), len(moved), microseconds) == figures
