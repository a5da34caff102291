"""FLOPs are the model's formula in every software generation, and recomputation adds exactly its forward."""

import pytest

from simgpu.workload.bundled import bundled_model, bundled_models
from simgpu.workload.model import Model
from simgpu.workload.op import Gemm
from simgpu.workload.software import PRESETS
from simgpu.workload.unit import Exchange
from tests.workload.generations import units

DENSE = [model for name in bundled_models() if isinstance(model := bundled_model(name), Model) and model.causal]
DENSE = [model for model in DENSE if model.experts is None and model.latent is None]


def gemm_flops(items):
    return sum(item.flops for item in items if isinstance(item, Gemm))


@pytest.mark.parametrize("model", DENSE, ids=lambda model: model.name)
@pytest.mark.parametrize("preset", PRESETS)
def test_flops_of_bundled_models_are_the_formula(model, preset):
    length = 512
    built = units(preset, model, sequence_length=length, micro_batch_size=1)
    products = model.layers * length * model.heads * model.head_dim * length
    square = 4 * products
    blocks = {phase: getattr(built.block, phase) for phase in ("forward", "backward")}

    def core(items):
        return sum(i.flops for i in items if getattr(i, "name", "").startswith("attention.core") and i.flops)

    gemms = model.layers * sum(gemm_flops(items) - core_gemms(items) for items in blocks.values())
    gemms += gemm_flops(built.head.forward + built.head.backward)
    assert gemms == 6 * model.matmul_parameters * length
    causal = 2 if PRESETS[preset].flash_attention else 1
    assert model.layers * core(blocks["forward"]) * causal == square
    # flash attention computes the scores again in backward, five products for the model's four
    extra = 5 / 4 if PRESETS[preset].flash_attention else 1
    assert model.layers * core(blocks["backward"]) * causal == 2 * extra * square
    assert model.model_flops_per_token(length) * length == gemms + 3 * square


def core_gemms(items):
    return sum(i.flops for i in items if isinstance(i, Gemm) and i.name.startswith("attention.core"))


@pytest.mark.parametrize("model", DENSE, ids=lambda model: model.name)
@pytest.mark.parametrize("preset", PRESETS)
def test_recomputation_adds_exactly_its_forward(model, preset):
    length = 512

    def flops(items):
        return sum(getattr(item, "flops", 0) for item in items)

    none, selective, full = (
        units(preset, model, sequence_length=length, micro_batch_size=1, recompute=mode).block
        for mode in ("none", "selective", "full")
    )
    assert not none.recompute
    assert flops(full.recompute) == flops(none.forward)
    assert [i for i in full.recompute if not isinstance(i, Exchange)] == [
        i for i in none.forward if not isinstance(i, Exchange)
    ]
    causal = 2 if PRESETS[preset].flash_attention else 1
    core = 4 * length * length * model.heads * model.head_dim // causal
    assert flops(selective.recompute) == core
    counted = [model.hardware_flops_per_token(length, mode) for mode in ("none", "selective", "full")]
    assert (counted[1] - counted[0]) * length == model.layers * core * causal
    weights = 2 * model.layers * model.block_matmul_parameters * length
    assert (counted[2] - counted[1]) * length == weights
    assert model.layers * (flops(full.recompute) - core) == weights
