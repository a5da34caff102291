"""FLOPs are the model's formula in every software generation, and recomputation adds exactly its forward."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simgpu.workload.bundled import bundled_model, bundled_models
from simgpu.workload.families import model_units
from simgpu.workload.model import Model
from simgpu.workload.op import Attention, Gemm
from simgpu.workload.software import PRESETS
from simgpu.workload.training import Training
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


def step_ops(model, preset, sequence, batch, recompute="none"):
    """All products of a micro-batch: embedding, every layer, head, forward and backward."""
    recipe = Training(sequence_length=sequence, micro_batch_size=batch, accumulation=1, recompute=recompute)
    built = model_units(model, recipe, software=PRESETS[preset])
    parts = [built.embedding, *(unit for layer in built.layers for unit in layer.units), built.head]
    items = [item for unit in parts for item in (*unit.forward, *unit.backward, *unit.recompute)]
    return recipe, [item for item in items if isinstance(item, Gemm | Attention)]


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(DENSE),
    preset=st.sampled_from(sorted(PRESETS)),
    sequence=st.integers(8, 128).map(lambda eighths: 8 * eighths),
    batch=st.integers(1, 4),
)
def test_flops_of_a_step_are_the_formula(model, preset, sequence, batch):
    # 6 N tokens + 12 L s a d per token, half of the latter where the kernel leaves out what causality masks
    assume(not model.window_layers or sequence <= model.sliding_window)
    recipe, ops = step_ops(model, preset, sequence, batch)
    core = [op for op in ops if op.name.startswith("attention.core")]
    products = sum(op.flops for op in ops) - sum(op.flops for op in core)
    if PRESETS[preset].flash_attention:  # whose backward computes the scores again: needed is twice the forward
        needed, half = 3 * sum(op.flops for op in core if not op.backward), 2
    else:
        needed, half = sum(op.flops for op in core), 1
    attention = 12 * model.layers * sequence * model.heads * model.head_dim * recipe.tokens // half
    assert products == 6 * model.matmul_parameters * recipe.tokens
    assert needed == attention
    # the numerator of MFU is never halved
    assert model.model_flops(recipe) == products + half * attention


BUILT_OF_PRODUCTS = [name for name in bundled_models() if getattr(bundled_model(name), "experts", None) is None]


@pytest.mark.parametrize("name", BUILT_OF_PRODUCTS)
def test_mfu_counts_what_the_products_of_every_dense_architecture_do(name):
    # without flash attention nothing is left out and nothing done twice
    recipe, ops = step_ops(bundled_model(name), "eager", 197 if name.startswith("vit") else 512, 2)
    assert bundled_model(name).model_flops(recipe) == sum(op.flops for op in ops)


@settings(max_examples=30, deadline=None)
@given(
    model=st.sampled_from(DENSE),
    preset=st.sampled_from(sorted(PRESETS)),
    sequence=st.sampled_from([64, 512, 1024]),
    mode=st.sampled_from(["selective", "full"]),
)
def test_recomputing_a_step_adds_exactly_the_forward_that_it_repeats(model, preset, sequence, mode):
    assume(not model.window_layers or sequence <= model.sliding_window)

    def total(recompute):
        return sum(op.flops for op in step_ops(model, preset, sequence, 1, recompute)[1])

    half = 2 if PRESETS[preset].flash_attention else 1
    core = 4 * model.layers * sequence * sequence * model.heads * model.head_dim // half
    weights = 2 * model.layers * model.block_matmul_parameters * sequence
    assert total(mode) - total("none") == core + (weights if mode == "full" else 0)
