"""Batch norms over the images of all ranks: two small exchanges each, which are waited for."""

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.errors import ScenarioError
from simgpu.lower import lower
from simgpu.program import Collective
from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import model_units
from simgpu.workload.op import MemoryBound
from simgpu.workload.splits import Splits
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange

NORMS = 53  # of ResNet-50: one after each convolution


def units(replicas, sync=True, recompute="none"):
    training = Training(
        sequence_length=1, micro_batch_size=4, accumulation=1, sync_batch_norm=sync, recompute=recompute
    )
    return model_units(bundled_model("resnet-50"), training, splits=Splits(replicas=replicas)).units


def sent(replicas, items, **wanted):
    return [x for unit in units(replicas, **wanted) for x in getattr(unit, items) if isinstance(x, Exchange)]


def test_two_exchanges_a_norm():
    forward, backward = sent(8, "forward"), sent(8, "backward")
    assert len(forward) == len(backward) == NORMS
    assert {item.axis for item in forward + backward} == {"dp"}
    first, last = forward[0], backward[0]
    assert (first.kind, first.bytes) == ("all_gather", 8 * (2 * 64 + 1) * 4)  # mean, deviation and count of 64 channels
    assert (last.kind, last.bytes) == ("all_reduce", 2 * 64 * 4)  # two sums per channel


@pytest.mark.parametrize(("replicas", "sync"), [(1, True), (8, False)])
def test_alone_or_unasked_nothing_is_sent(replicas, sync):
    assert sent(replicas, "forward", sync=sync) == []


def test_the_memory_traffic_is_the_same():
    def moved(sync, items):
        return sum(x.bytes for unit in units(8, sync) for x in getattr(unit, items) if isinstance(x, MemoryBound))

    assert moved(True, "forward") == moved(False, "forward")
    assert moved(True, "backward") == moved(False, "backward")


def test_recomputation_normalises_again():
    assert len(sent(8, "recompute", recompute="full")) == NORMS - 1  # the stem's is not repeated


def case_of(model="resnet-50", sync=True, **parallel):
    (case,) = load_cases(
        {
            "name": "s",
            "model": model,
            "cluster": {"topology": "dgx-a100", "nodes": 1},
            "training": {"micro_batch_size": 32, "sync_batch_norm": sync},
            "parallel": {"data_parallel": "ddp", **parallel},
        }
    )
    return case


def test_they_share_the_stream_of_the_gradients_and_cost_time():
    plain, synced = (case_of(sync=sync) for sync in (False, True))
    found = lower(synced.cluster, synced.model, synced.training, synced.strategy)
    (stream,) = (s for name, s in found.roles[0].streams.items() if name == "dp")
    kinds = [item.kind for item in stream if isinstance(item, Collective)]
    assert kinds.count("all_gather") == NORMS
    assert kinds.count("all_reduce") > NORMS, "gradients are reduced between them"
    assert simulate(synced).step_time_ns > 1.1 * simulate(plain).step_time_ns


def test_without_batch_norms_it_means_nothing():
    with pytest.raises(ScenarioError, match=r"training\.sync_batch_norm = true: means nothing to vit-large"):
        case_of("vit-large")
