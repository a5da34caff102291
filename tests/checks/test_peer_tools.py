"""What broke other simulators and trace tools, or made them answer wrongly, tried on this one: a row for each report.

The rows are those of section I of the list of cases, numbered as there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checks import peer_jobs, peer_traces
from tests.checks.tried import Tried

ROWS: dict[int, tuple[str, Callable[[Tried], None]]] = {
    103: ("astra-sim/astra-sim#215: 0 cycles", peer_jobs.empty_workloads),
    104: ("astra-sim/astra-sim#172; astra-sim/stage#18: hangs", peer_jobs.deadlocks),
    105: ("astra-sim/astra-sim#318: 32 traces, 1 npu", peer_jobs.more_ranks_than_the_scenario),
    106: ("astra-sim/astra-sim#207: the same whatever the topology", peer_jobs.bandwidth_that_counts),
    107: ("astra-sim/astra-sim#222: runs for days", peer_jobs.as_many_events_for_thousands),
    108: ("astra-sim/astra-sim#299: a topology without a switch", peer_jobs.switchless_cubes),
    109: ("astra-sim/astra-sim#338: a dependency that is not in the file", peer_jobs.dangling_dependencies),
    110: ("astra-sim/astra-sim#224: older traces", peer_traces.older_traces),
    111: ("mlcommons/chakra#134, #189: cyclic dependencies", peer_jobs.shortest_cycles),
    112: ("mlcommons/chakra#45: parents that are not in the file", peer_jobs.orphans),
    113: ("mlcommons/chakra#197: only cpu_op events", peer_traces.cpu_only_traces),
    114: ("mlcommons/chakra#49: types from the host op, false order of streams", peer_traces.types_from_kernels),
    115: ("aliyun/SimAI#34: 128 GPUs and a workload of 8", peer_jobs.wrong_products),
    116: ("aliyun/SimAI#47, #186, #214: no output folder", peer_jobs.unwritable_outputs),
    117: ("aliyun/SimAI#140, #264: hangs, empty output", peer_jobs.small_worlds),
    118: ("aliyun/SimAI#138: no NVLink", peer_jobs.servers_without_nvlink),
    119: ("aliyun/SimAI#208: 32 and 64 GPUs are the same", peer_jobs.more_gpus_that_count),
    120: ("aliyun/SimAI#119, #59: failures", peer_jobs.features_that_are_not_there),
    121: ("facebookresearch/HolisticTraceAnalysis#56, #107, #233: no rank", peer_traces.traces_without_a_rank),
    122: ("facebookresearch/HolisticTraceAnalysis#109, #148: names of NCCL's kernels", peer_traces.names_of_nccl),
    123: (
        "facebookresearch/HolisticTraceAnalysis#162, #241: synchronisation as compute",
        peer_traces.what_is_no_kernel,
    ),
    124: ("a public profiling note: 6 of 8 files cut off", peer_traces.cut_traces),
    125: ("cli99/llm-analysis#12: a flag without effect", peer_jobs.flags_without_effect),
    126: ("cli99/llm-analysis#19: norms divided by tp", peer_jobs.norms_on_every_tensor_rank),
    127: ("cli99/llm-analysis#27: tensor groups between nodes", peer_jobs.tensor_groups_between_nodes),
    128: ("JF-D/Proteus#3: errors of a factor of ten", peer_jobs.errors_per_configuration),
    129: ("IBM/aiu-trace-analyzer#84: thread numbers of two streams", peer_traces.streams_of_two_gpus),
}


def test_every_row_is_tried() -> None:
    assert list(ROWS) == list(range(103, 130))


@pytest.mark.parametrize(
    "check", [check for _, check in ROWS.values()], ids=[f"{n}: {what}" for n, (what, _) in ROWS.items()]
)
def test_row(check: Callable[[Tried], None], simgpu: Callable[..., Any], tmp_path: Path) -> None:
    check(Tried(simgpu=simgpu, folder=tmp_path))
