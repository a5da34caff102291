"""What of a backward pass may wait: the gradients of weights, and nothing that another layer needs."""

import pytest

from simgpu.workload.backward_split import split_backward
from simgpu.workload.bundled import bundled_model, bundled_models
from simgpu.workload.families import model_units
from simgpu.workload.op import Attention, Gemm, GroupedGemm
from simgpu.workload.software import PRESETS
from simgpu.workload.synthetic import SyntheticModel, synthetic_units
from simgpu.workload.training import Training
from simgpu.workload.unit import Exchange, GradientReady, Join

EVERY = bundled_models()


def units(name, preset="flash", **training):
    model = bundled_model(name)
    training = Training(sequence_length=model.fixed_sequence or 128, micro_batch_size=2, accumulation=1, **training)
    return model_units(model, training, software=PRESETS[preset])


def products(items):
    return sum(item.flops for item in items if isinstance(item, Gemm | GroupedGemm))


@pytest.mark.parametrize("preset", ["eager", "flash", "te"])
@pytest.mark.parametrize("name", EVERY)
def test_weights_wait_with_as_many_flops_as_the_linear_layers_have_forward(name, preset):
    """Products of activations with each other, attention's and a contrastive loss', do not wait."""
    whole = units(name, preset)
    for unit in {id(unit): unit for unit in whole.units}.values():
        split = split_backward(unit)
        assert sorted(map(repr, (*split.input_pass, *split.weight_pass))) == sorted(map(repr, unit.backward))
        if unit.kind == "embedding":
            assert not split.input_pass
            continue
        between = (".core", "similarity")
        linear = [item for item in unit.forward if not any(part in getattr(item, "name", "") for part in between)]
        assert products(split.weight_pass) == products(linear)
        assert not any(isinstance(item, Attention | Exchange | Join) for item in split.weight_pass)
        assert not any(isinstance(item, GradientReady) for item in split.input_pass)


@pytest.mark.parametrize("name", EVERY)
def test_as_much_is_kept_for_the_weights_as_the_layers_read_and_write(name):
    """About what a block saves (arXiv 2401.10241); T5's ReLU keeps no input, and one encoder output serves all."""
    block = units(name).layers[-1].units[-1]
    split = split_backward(block)
    assert 0 < split.inputs_bytes <= block.saved_bytes
    most = 1.3 if name.startswith("t5") else 1.2
    assert 0.8 < (split.inputs_bytes + split.gradients_bytes) / block.saved_bytes < most


def test_a_synthetic_stage_splits_as_asked():
    half, third = (
        synthetic_units(SyntheticModel(stages=1, forward_ns=9, backward_ns=21, backward_weight_ns=weight))[0]
        for weight in (None, 7)
    )
    times = [[item.duration_ns for item in split_backward(unit).weight_pass] for unit in (half, third)]
    assert times == [[10], [7]]
    assert [sum(item.duration_ns for item in unit.backward) for unit in (half, third)] == [21, 21]
