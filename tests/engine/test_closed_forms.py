"""Closed forms of small cases whose network is not free."""

import pytest

from simgpu.api import play_case, simulate
from simgpu.config import load_cases
from simgpu.program import Collective, Compute, TransferKey
from tests.lower.tiny import ALL, program, tiny

FORWARD, BACKWARD = 1_000_000, 2_000_000
MESSAGE = 8 << 20


def pipeline(stages, microbatches, **parallel):
    (case,) = load_cases(
        {
            "name": "equal stages",
            "model": {
                "stages": stages,
                "forward_ns": FORWARD,
                "backward_ns": BACKWARD,
                "activation_bytes": MESSAGE,
            },
            "cluster": {"topology": "dgx-a100", "gpus": stages},
            "training": {"gradient_accumulation": microbatches, "micro_batch_size": 1, "optimizer": "none"},
            "parallel": {"pp": stages, **parallel},
        }
    )
    return case


def message_ns(case):
    """Time of one message; NVSwitch gives every pair and direction the same."""
    costs = play_case(case).program.transfers.values()
    (time,) = {cost.latency_ns + cost.stream_ns for cost in costs}
    assert time > 10_000
    return time


@pytest.mark.parametrize("microbatches", range(1, 7))
def test_blocking_1f1b_of_two_stages(microbatches):
    """(m + 1)(F + B) + (m + 1) t.

    Stage 1 takes F + B per micro-batch and then exchanges: its gradient goes out while the next activation comes in, t
    both together. Around these m - 1 exchanges stand stage 0's first F with its message and its last B with the
    message before it: F + t + m (F + B) + (m - 1) t + t + B.
    """
    case = pipeline(2, microbatches)
    t = message_ns(case)
    step = simulate(case).step_time_ns
    assert step == (microbatches + 1) * (FORWARD + BACKWARD) + (microbatches + 1) * t


@pytest.mark.parametrize("microbatches", range(1, 7))
def test_overlapped_1f1b_of_two_stages(microbatches):
    """(m + 1)(F + B) + 2 ceil(m / 2) t.

    Two micro-batches are under way. The second's activation arrives while stage 1 works on the first, so only every
    second micro-batch waits for a round trip of 2 t: gradient down, next activation up.
    """
    case = pipeline(2, microbatches, overlap_p2p=True)
    t = message_ns(case)
    step = simulate(case).step_time_ns
    assert step == (microbatches + 1) * (FORWARD + BACKWARD) + 2 * -(-microbatches // 2) * t


@pytest.mark.parametrize("overlap_p2p", [False, True])
@pytest.mark.parametrize("stages", [2, 3, 5, 8])
def test_one_microbatch_travels_down_and_back(stages, overlap_p2p):
    """p (F + B) + 2 (p - 1) t: nothing overlaps with anything."""
    case = pipeline(stages, 1, overlap_p2p=overlap_p2p)
    step = simulate(case).step_time_ns
    assert step == stages * (FORWARD + BACKWARD) + 2 * (stages - 1) * message_ns(case)


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_ddp_with_one_bucket_exposes_its_whole_all_reduce(gpus):
    """The bucket is full when backward ends: step = compute + all-reduce, and a ring moves 2 (n-1)/n of the bytes."""
    wanted = {"gpus": gpus, "data_parallel": "ddp", "ddp": {"bucket_cap_mb": 100}}
    written = program(**wanted)
    instructions = written.roles[0].streams
    compute = sum(item.duration_ns for item in instructions["compute"] if isinstance(item, Compute))
    (reduction,) = [item for item in instructions["dp"] if isinstance(item, Collective)]
    assert (reduction.kind, reduction.bytes) == ("all_reduce", 4 * ALL)
    cost = written.transfers[0, TransferKey(kind="all_reduce", bytes=4 * ALL)]
    t = cost.latency_ns + cost.stream_ns
    report = simulate(tiny(**wanted))
    assert report.step_time_ns == compute + t
    assert report.breakdown_ns["exposed.dp"] == t > 0
    assert report.overlap_ratio == 0
    assert sum(report.breakdown_ns.values()) == report.step_time_ns
    assert cost.algorithm == "ring"
    assert max(load.bytes for load in cost.loads) == pytest.approx(2 * (gpus - 1) / gpus * 4 * ALL, rel=1e-6)
