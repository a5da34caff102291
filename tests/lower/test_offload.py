"""What moves between GPU and host, in which order, what stays where, and how long the step waits for it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.engine import play
from simgpu.errors import ScenarioError
from simgpu.fold import fold
from simgpu.program import HOST, Alloc, Collective, Wait
from tests.lower.printer import streams
from tests.lower.tiny import ALL, BLOCK, EMBEDDING, HEAD, program, roles, tiny

GPUS = 2
SHARD = ALL // GPUS
CPU = {"device": "cpu", "pin_memory": True}
ONE = {"gradient_accumulation": 1}


def moved(role, stream):
    return [(item.name, item.kind, item.bytes) for item in role.streams.get(stream, ()) if isinstance(item, Collective)]


def total(role, stream):
    return sum(size for _, _, size in moved(role, stream))


def test_zero2_sends_reduced_gradients_down_and_updated_weights_up():
    (role,) = roles(data_parallel="zero2", zero={"offload_optimizer": CPU}, training=ONE)
    assert moved(role, "d2h") == [("gradients to host", "d2h", 2 * SHARD)]
    assert moved(role, "cpu") == [("update on the CPU", "cpu_update", 36 * SHARD)]  # Adam 28, clipping 8
    assert moved(role, "h2d") == [("updated weights to GPU", "h2d", 2 * SHARD)]
    written = streams(role)
    assert written["d2h"][0].startswith("<add reduced shard"), "as soon as the bucket is reduced"
    compute = written["compute"]
    order = ["<gradients to host@0>", "<reduce gradient norm>", "<updated weights to GPU>", "<gather updated weights>"]
    assert [token for token in compute if token in order] == order
    assert not any(token.startswith("optimizer") for token in compute)


def gradients(role):
    """Bytes of gradients that a step takes, in order."""
    return [item.bytes for item in role.streams["compute"] if isinstance(item, Alloc) and item.category == "gradients"]


def test_states_are_on_the_host_and_not_on_the_gpu():
    plain, offloaded = (
        roles(data_parallel="zero2", training=ONE, **zero)[0] for zero in ({}, {"zero": {"offload_optimizer": CPU}})
    )
    assert plain.resident_bytes["optimizer"] == 12 * SHARD
    assert gradients(plain) == [2 * SHARD]
    assert gradients(offloaded) == []
    assert {"optimizer", "gradients"}.isdisjoint(offloaded.resident_bytes)
    assert offloaded.host_bytes == {"gradients": 4 * SHARD, "optimizer": 12 * SHARD}
    assert plain.host_bytes == {}


def test_later_microbatches_fetch_the_sum_add_and_send_it_back():
    (role,) = roles(data_parallel="zero2", zero={"offload_optimizer": CPU}, training={"gradient_accumulation": 3})
    names = [name for name, _, _ in moved(role, "h2d")]
    assert names == ["fetch summed gradients"] * 2 + ["updated weights to GPU"]
    assert [size for _, _, size in moved(role, "d2h")] == [2 * SHARD] * 3
    assert role.host_bytes["gradients"] == (4 + 2) * SHARD


def test_zero1_reduces_and_sends_once_per_step():
    (role,) = roles(data_parallel="zero1", zero={"offload_optimizer": CPU}, training={"gradient_accumulation": 3})
    assert [name for name, _, _ in moved(role, "h2d")] == ["updated weights to GPU"]
    assert total(role, "d2h") == 2 * SHARD
    assert sum(gradients(role)) == 2 * ALL, "autograd's, whole"


def test_buckets_share_the_gradients_out():
    (role,) = roles(data_parallel="zero2", zero={"offload_optimizer": CPU, "reduce_bucket_size": 50_000}, training=ONE)
    assert len(moved(role, "d2h")) > 1
    assert 2 * SHARD <= total(role, "d2h") < 2 * SHARD + len(moved(role, "d2h"))


def test_offloaded_weights_come_up_before_every_gather():
    zero = {"offload_param": CPU, "offload_optimizer": CPU, "stage3_param_persistence_threshold": 0}
    (role,) = roles(data_parallel="zero3", zero=zero, training=ONE)
    fetched = [(name, size) for name, _, size in moved(role, "h2d")]
    gathers = [item for item in role.streams["dp"] if isinstance(item, Collective) and item.kind == "all_gather"]
    assert [f"fetch {gather.name.removeprefix('gather ')}" for gather in gathers] == [name for name, _ in fetched]
    assert [2 * size for _, size in fetched] == [gather.bytes for gather in gathers]
    waits = [token for token in streams(role)["dp"] if token.startswith("<fetch")]
    assert len(waits) == len(gathers)
    assert "weights" not in role.resident_bytes
    assert role.host_bytes["weights"] == 2 * SHARD
    assert not any(name == "updated weights to GPU" for name, _ in fetched), "they stay on the host"


def test_weights_on_the_host_with_an_optimizer_on_the_gpu_are_sent_back():
    (role,) = roles(data_parallel="zero3", zero={"offload_param": CPU}, training=ONE)
    assert moved(role, "d2h") == [("weights to host", "d2h", 2 * SHARD)]
    assert moved(role, "cpu") == []


@pytest.mark.parametrize(("read", "write"), [(False, False), (True, False), (False, True), (True, True)])
def test_sub_groups_of_an_ssd_follow_each_other_or_overlap(monkeypatch, read, write):
    """Three sub-groups: R U W each; pipelined reads run beside the update before, writes beside the one after."""
    monkeypatch.setattr("simgpu.lower.offload.SUB_GROUP_ELEMENTS", -(-SHARD // 3))
    zero = {"offload_optimizer": {"device": "nvme", "pipeline_read": read, "pipeline_write": write}}
    subject = program(data_parallel="zero3", zero=zero, training=ONE)
    (role,) = subject.roles
    assert total(role, "nvme_read") == (12 + 4) * SHARD
    assert total(role, "nvme_write") == 12 * SHARD
    timeline = play(subject)
    times = {}
    for name in ("nvme_read", "cpu", "nvme_write"):
        rows = [row for row in timeline.rows(0, name) if int(timeline.spans.step[row]) == timeline.step]
        works = [row for row in rows if isinstance(timeline.instruction(row), Collective)]
        times[name] = [(int(timeline.spans.start_ns[row]), int(timeline.spans.end_ns[row])) for row in works]
    reads, updates, writes = times["nvme_read"], times["cpu"], times["nvme_write"]
    assert len(reads) == len(updates) == len(writes) == 3
    for index in range(3):
        assert reads[index][1] <= updates[index][0]
        assert updates[index][1] <= writes[index][0]
    assert (reads[1][0] < updates[0][1]) == read
    assert (reads[1][0] < writes[0][1]) == (read or write)


def test_fsdp_keeps_fp32_shards_on_the_host():
    (role,) = roles(data_parallel="fsdp", fsdp={"cpu_offload": True}, training=ONE)
    assert role.host_bytes == {"weights": 4 * SHARD, "gradients": 4 * SHARD, "optimizer": 8 * SHARD}
    assert {"weights", "gradients", "optimizer"}.isdisjoint(role.resident_bytes)
    assert total(role, "d2h") == 4 * SHARD
    sizes = {name: size for name, _, size in moved(role, "h2d")}
    assert sizes["fetch embedding and head"] == 4 * (EMBEDDING + HEAD) // GPUS
    assert sizes["fetch block 0"] == 4 * BLOCK // GPUS
    assert moved(role, "cpu")[0][2] == (28 * 6 + 8) * SHARD, "PyTorch's own Adam is six times slower"


def test_one_gpu_offloads_too():
    (role,) = roles(gpus=1, data_parallel="zero2", zero={"offload_optimizer": CPU}, training=ONE)
    assert total(role, "d2h") == 2 * ALL
    report = simulate(tiny(gpus=1, data_parallel="zero2", zero={"offload_optimizer": CPU}))
    assert report.breakdown_ns["host"] > 0


def test_waits_are_the_hosts_and_the_breakdown_adds_up():
    report = simulate(tiny(data_parallel="zero2", zero={"offload_optimizer": CPU}))
    assert sum(report.ranks[0].breakdown_ns.values()) == report.step_time_ns
    assert report.breakdown_ns["host"] > 0.09 * report.step_time_ns
    assert "waiting for the host (the CPU's update" in report.verdict
    assert "Launch-bound" not in report.verdict


def test_pageable_copies_are_slower_and_the_verdict_says_what_helps():
    pinned, pageable = (
        simulate(tiny(model={"hidden": 512, "ffn": 2048}, data_parallel="zero2", zero={"offload_optimizer": options}))
        for options in (CPU, "cpu")
    )
    assert pageable.step_time_ns > pinned.step_time_ns
    assert "pin_memory" in pageable.verdict
    assert "pin_memory" not in pinned.verdict


def test_the_cpu_waits_for_pageable_copies_and_not_for_pinned_ones():
    def waits(options):
        software = {"host_issue_ns": 1_000}
        (role,) = roles(data_parallel="zero2", zero={"offload_optimizer": options}, training=ONE, software=software)
        return sum(isinstance(item, Wait) for item in role.streams[HOST])

    assert waits("cpu") == waits(CPU) + 2, "for the gradients and for the updated weights"


def test_free_communication_leaves_the_hosts_work():
    case = tiny(data_parallel="zero2", zero={"offload_optimizer": CPU})
    free = simulate(replace(case, network_free=True))
    assert free.breakdown_ns["host"] > 0
    assert free.step_time_ns < simulate(case).step_time_ns


@settings(max_examples=12)
@given(
    st.sampled_from([("zero1", False), ("zero2", False), ("zero3", False), ("zero3", True)]),
    st.integers(1, 3),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_folded_and_unfolded_agree(kind, accumulation, gpus, pinned):
    stage, weights = kind
    place = {"device": "cpu", "pin_memory": pinned}
    zero = {"offload_optimizer": place, **({"offload_param": place} if weights else {})}
    subject = program(data_parallel=stage, zero=zero, gpus=gpus, training={"gradient_accumulation": accumulation})
    whole, folded = play(subject), play(fold(subject))
    assert whole.step_ends_ns == folded.step_ends_ns


@pytest.mark.parametrize(
    ("parallel", "zero", "training", "words"),
    [
        ("zero2", {"offload_param": "cpu"}, {}, "zero.offload_param = cpu: needs stage 3"),
        ("zero2", {"offload_optimizer": "nvme"}, {}, "goes to an SSD at stage 3 only; this is zero2; allowed: cpu"),
        ("zero1", {"offload_optimizer": "tape"}, {}, "zero.offload_optimizer.device = tape: is not known"),
        ("zero2", {"offload_optimizer": "cpu"}, {"optimizer": "sgd"}, "has no step on the CPU"),
        ("ddp", {"offload_optimizer": "cpu"}, {}, "has no effect"),
    ],
)
def test_refusals(parallel, zero, training, words):
    with pytest.raises(ScenarioError) as caught:
        tiny(data_parallel=parallel, zero=zero, training=training)
    assert words in str(caught.value)


def test_none_is_none():
    case = tiny(data_parallel="zero2", zero={"offload_optimizer": "none"})
    assert not case.strategy.offloads


def test_a_node_that_is_too_small_for_its_ranks_is_reported(tmp_path):
    devices = {
        "gpu": {"kind": "gpu", "count": 2, "model": "RTX-3090"},
        "cpu": {"kind": "cpu"},
        "memory": {"kind": "memory", "size": 32},
    }
    links = [
        {"from": "gpu", "to": "cpu", "type": "PCIe 4.0 x16"},
        {"from": "cpu", "to": "memory", "type": "DDR4-3200, 8 channels"},
    ]
    path = tmp_path / "box.yaml"
    path.write_text(json.dumps({"name": "box", "devices": devices, "links": links}))
    (case,) = load_cases(
        {
            "name": "x",
            "model": "llama-2-7b",
            "cluster": {"topology": str(path)},
            "training": {"sequence_length": 128, "micro_batch_size": 1},
            "parallel": {"data_parallel": "zero2"},
            "zero": {"offload_optimizer": CPU},
        }
    )
    report = simulate(case)
    elements = report.host_memory.by_category_bytes["optimizer"] // 12
    assert report.host_memory.by_category_bytes == {"gradients": 4 * elements, "optimizer": 12 * elements}
    assert any(text.startswith("OUT OF HOST MEMORY: a node keeps 100.4 of 32.0 GiB") for text in report.warnings)
