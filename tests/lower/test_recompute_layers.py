"""The first layers of every stage run forward again, as many as asked for."""

import pytest

from simgpu.api import simulate
from simgpu.config.load import load_cases
from simgpu.errors import ScenarioError
from simgpu.program import Compute
from tests.lower.tiny import roles, tiny


def again(role):
    return {item.unit for item in role.streams["compute"] if isinstance(item, Compute) and item.phase == "recompute"}


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, {"block 0", "block 1"}), (1, {"block 0"}), (2, {"block 0", "block 1"})]
)
def test_one_stage(limit, expected):
    training = {"recompute": "full", **({"recompute_layers": limit} if limit else {})}
    (role,) = roles(training=training)
    assert again(role) == expected


def test_every_stage_counts_by_itself():
    stages = roles(model={"layers": 4}, pp=2, training={"recompute": "full", "recompute_layers": 1})
    assert [again(role) for role in stages] == [{"block 0"}, {"block 2"}]


def test_time_memory_and_flops_lie_between_none_and_all():
    reports = [
        simulate(tiny(model={"layers": 4, "hidden": 512, "heads": 8, "ffn": 2048}, training=training))
        for training in (
            {},
            {"recompute": "full", "recompute_layers": 1},
            {"recompute": "full", "recompute_layers": 3},
            {"recompute": "full"},
        )
    ]
    assert [r.step_time_ns for r in reports] == sorted({r.step_time_ns for r in reports})
    repeated = [r.hfu * r.step_time_s - r.mfu * r.step_time_s for r in reports]
    assert repeated[1:3] == pytest.approx([repeated[3] / 4, 3 * repeated[3] / 4], rel=1e-6)
    recomputed = [r.breakdown_ns["compute.recompute"] for r in reports]
    assert recomputed[1] == pytest.approx(recomputed[3] / 4, rel=0.01)  # communication beside it slows some kernels
    assert reports[3].peak_memory_bytes < reports[2].peak_memory_bytes < reports[0].peak_memory_bytes


def test_megatrons_name_is_known_and_a_count_without_recomputation_is_refused():
    scenario = {
        "name": "x",
        "model": "gpt2",
        "cluster": {"topology": "dgx-a100", "gpus": 1},
        "training": {"sequence_length": 64, "micro_batch_size": 1, "recompute_layers": 2},
    }
    with pytest.raises(ScenarioError, match=r"recompute_layers = 2: has no effect: training.recompute is none"):
        load_cases(scenario)
    scenario["training"] = {"sequence_length": 64, "micro_batch_size": 1, "recompute_num_layers": 2}
    with pytest.raises(ScenarioError, match=r"use training.recompute_layers"):
        load_cases(scenario)
