"""The gradient norm: when it is taken, and over which ranks it is joined."""

import pytest

from simgpu.config import load_cases
from simgpu.lower import lower
from simgpu.parallel.strategy import Strategy
from simgpu.workload.synthetic import SyntheticModel
from tests.lower.printer import streams
from tests.lower.tiny import ALL, program, roles, tiny


def norm_groups(**wanted):
    return [group.members for group in program(**wanted).groups if group.communicator == "norm"]


@pytest.mark.parametrize(
    ("wanted", "groups"),
    [
        # ranks are pp x dp x tp, tp fastest: rank = 4 pp + 2 dp + tp
        ({"gpus": 8, "tp": 2, "pp": 2, "data_parallel": "ddp"}, [(0, 1, 4, 5), (2, 3, 6, 7)]),
        ({"gpus": 8, "tp": 2, "pp": 2, "data_parallel": "fsdp"}, [tuple(range(8))]),
        ({"gpus": 4, "tp": 2, "data_parallel": "ddp"}, [(0, 1), (2, 3)]),
        ({"gpus": 4, "pp": 2, "data_parallel": "ddp"}, [(0, 2), (1, 3)]),
        ({"gpus": 2, "data_parallel": "ddp"}, []),  # both ranks have every gradient
        ({"gpus": 2, "data_parallel": "zero1"}, [(0, 1)]),
        ({"gpus": 2, "data_parallel": "zero2"}, [(0, 1)]),
        ({"gpus": 2, "data_parallel": "zero3"}, [(0, 1)]),
        ({"gpus": 2, "data_parallel": "fsdp"}, [(0, 1)]),
    ],
)
def test_the_norm_is_joined_over_ranks_whose_gradients_differ(wanted, groups):
    assert norm_groups(**wanted) == groups


@pytest.mark.parametrize(
    ("wanted", "axis", "spans_stages"),
    [({"gpus": 2, "pp": 2}, "pp", True), ({"gpus": 2, "data_parallel": "fsdp"}, "dp", False), ({"tp": 2}, "tp", False)],
)
def test_waiting_for_a_late_norm_is_a_bubble_only_across_stages(wanted, axis, spans_stages):
    norm = program(**wanted).communicators["norm"]
    assert (norm.axis, norm.spans_stages) == (axis, spans_stages)


@pytest.mark.parametrize("wanted", [{"gpus": 2, "pp": 2}, {"gpus": 2, "data_parallel": "fsdp"}, {"gpus": 1}])
def test_without_an_optimizer_there_is_no_norm(wanted):
    for role in roles(training={"optimizer": "none"}, **wanted):
        assert "norm" not in role.streams
        assert not any(token.startswith(("gradient norm", "optimizer")) for token in streams(role)["compute"])


def test_a_synthetic_model_has_no_norm():
    case = tiny(pp=2)
    model = SyntheticModel(stages=2, forward_ns=10, backward_ns=20, activation_bytes=8)
    for role in lower(case.cluster, model, case.training, Strategy(pp=2)).roles:
        assert "norm" not in role.streams
        assert streams(role)["compute"][-1] in ("B1 stage 0", "<send B1>")


@pytest.mark.parametrize(
    ("data_parallel", "norm", "rest", "elements"),
    [
        ("none", 4, 8 + 28, ALL),  # fp32 gradients and weights: clip 8; read 4 + 4 + 8, write 4 + 8
        ("ddp", 4, 8 + 28, ALL),
        ("zero1", 2, 4 + 28, ALL // 2),  # bf16 gradients and weights, fp32 master: read 2 + 4 + 8, write 2 + 4 + 8
        ("zero3", 2, 4 + 28, ALL // 2),
        ("fsdp", 4, 8 + 28, ALL // 2),
    ],
)
def test_a_rank_reads_and_updates_what_it_keeps(data_parallel, norm, rest, elements):
    (role,) = roles(gpus=1 if data_parallel == "none" else 2, data_parallel=data_parallel)
    found = [token for token in streams(role)["compute"] if token.startswith(("gradient norm", "optimizer"))]
    assert found == [f"gradient norm = {norm * elements}", f"optimizer = {rest * elements}"]


@pytest.mark.parametrize(
    ("preset", "optimizer", "per_weight"),
    [("eager", "adamw", 4), ("eager", "sgd", 0), ("flash", "adamw", 0), ("eager", "adafactor", 4)],
)
def test_unfused_optimizers_need_memory_of_their_own(preset, optimizer, per_weight):
    """The root of the second moment, for all weights at once: pytorch/pytorch torch/optim/adam.py."""
    (case,) = load_cases(
        {
            "model": "gpt2",
            "cluster": {"topology": "dgx-a100", "gpus": 1},
            "training": {"sequence_length": 64, "micro_batch_size": 1, "optimizer": optimizer},
            "software": preset,
        }
    )
    (role,) = lower(case.cluster, case.model, case.training, case.strategy, software=case.software).roles
    taken = [item.bytes for item in role.streams["compute"] if getattr(item, "category", "") == "optimizer temporaries"]
    assert taken == ([per_weight * 124439808] * 2 if per_weight else [])
