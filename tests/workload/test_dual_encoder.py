"""CLIP: two towers, a gather of their features, and a loss over all pairs."""

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.errors import ScenarioError
from simgpu.lower import lower
from simgpu.program import Collective, Send
from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import model_units
from simgpu.workload.op import Gemm
from simgpu.workload.training import Training

PAIRS, WIDTH = 64, 512


def case_of(gpus=8, training=None, model="clip-vit-b-32", **parallel):
    (case,) = load_cases(
        {
            "model": model,
            "cluster": {"topology": "dgx-a100", "nodes": -(-gpus // 8), "gpus": gpus},
            "training": {"micro_batch_size": PAIRS, "gradient_accumulation": 2, **(training or {})},
            "parallel": parallel,
        }
    )
    return case


def features(role):
    return [
        (item.phase, item.kind, item.bytes)
        for item in role.streams["dp"]
        if isinstance(item, Collective) and "feature" in item.name
    ]


def roles(**wanted):
    case = case_of(**wanted)
    return lower(case.cluster, case.model, case.training, case.strategy, software=case.software).roles


@pytest.mark.parametrize("name", ["clip-vit-b-32", "clip-vit-l-14"])
def test_units_hold_the_published_parameters(name):
    model = bundled_model(name)
    training = Training(sequence_length=model.fixed_sequence, micro_batch_size=2, accumulation=1)
    units = model_units(model, training).units
    assert sum(unit.elements for unit in units) == model.parameters
    flops = sum(getattr(item, "flops", 0) for unit in units for item in (*unit.forward, *unit.backward))
    assert 0.9 < flops / model.model_flops(training) < 1.1


def test_both_towers_features_are_gathered_before_the_loss_of_every_microbatch():
    (role,) = roles()
    size = 8 * PAIRS * WIDTH * 4  # fp32
    assert features(role) == [("forward", "all_gather", size)] * 4


def test_with_gradients_backward_scatters_as_much():
    (role,) = roles(training={"gather_with_grad": True})
    size = 8 * PAIRS * WIDTH * 4
    once = [("forward", "all_gather", size)] * 2 + [("backward", "reduce_scatter", size)] * 2
    assert features(role) == once * 2


def test_the_gather_blocks():
    """Nothing that comes after it in the step may begin before it ends."""
    case = case_of(training={"gather_with_grad": True})
    report = simulate(case)
    assert report.breakdown_ns["exposed.dp"] > 0
    (role,) = roles()
    stream = role.streams["compute"]
    head = next(i for i, item in enumerate(stream) if getattr(item, "name", "") == "backward head")
    assert sum(type(item).__name__ == "Wait" for item in stream[:head]) >= 2


def test_a_local_loss_makes_two_thin_products_instead_of_a_square_one():
    def similarity(**training):
        (role,) = roles(training=training)
        units = [item for item in role.streams["compute"] if getattr(item, "name", "") == "forward head"]
        return sum(kernel.flops for item in units for kernel in item.kernels if kernel.name == "similarity")

    everything, own = 8 * PAIRS, PAIRS
    microbatches = 2
    assert similarity() == microbatches * 2 * everything * everything * WIDTH
    assert similarity(local_loss=True) == microbatches * 2 * 2 * own * everything * WIDTH


def test_alone_nothing_is_exchanged():
    (role,) = roles(gpus=1)
    assert not any(isinstance(item, Collective) for stream in role.streams.values() for item in stream)


@pytest.mark.parametrize("data_parallel", ["ddp", "zero2", "zero3", "fsdp1", "fsdp"])
def test_it_goes_with_every_kind_of_data_parallelism(data_parallel):
    report = simulate(case_of(data_parallel=data_parallel, training={"gather_with_grad": True}))
    assert report.timeline.steady
    for rank in report.ranks:
        assert sum(rank.breakdown_ns.values()) == report.step_time_ns


def test_a_pipeline_hands_on_the_image_features_through_the_text_tower():
    found = roles(pp=4, training={"gather_with_grad": True})
    sent = [
        next((item.bytes for items in role.streams.values() for item in items if isinstance(item, Send)), 0)
        for role in found
    ]
    image, words = PAIRS * 50 * 768 * 2, PAIRS * 77 * 512 * 2
    assert sent[:3] == [image, image, words + 4 * PAIRS * WIDTH]
    assert [bool(features(role)) for role in found] == [False, False, False, True]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"model": "gpt2", "training": {"sequence_length": 128, "gather_with_grad": True}}, "has no contrastive loss"),
        ({"model": "resnet-50", "training": {"local_loss": True}}, "training.local_loss = true: means nothing"),
        ({"data_parallel": "dataparallel"}, "it is a single one"),
        ({"training": {"sequence_length": 77}}, "is not the 127 of clip-vit-b-32"),
        ({"cp": 2}, "context parallelism is not modelled for clip-vit-b-32"),
        ({"tp": 3}, "parallel.tp"),
    ],
)
def test_what_does_not_fit_is_said(wanted, words):
    with pytest.raises(ScenarioError) as error:
        case_of(**wanted)
    assert words in str(error.value)


def test_matrix_products_of_the_loss():
    training = Training(sequence_length=127, micro_batch_size=4, accumulation=1)
    head = model_units(bundled_model("clip-vit-b-32"), training).head
    shapes = [(item.m, item.n, item.k) for item in head.backward if isinstance(item, Gemm) and "simil" in item.name]
    assert shapes == [(4, 512, 4), (4, 512, 4)]
