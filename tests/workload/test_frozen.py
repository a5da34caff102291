"""What frozen weights and adapters leave of a backward pass."""

from dataclasses import replace

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import model_units
from simgpu.workload.frozen import spared_flops, trained_units, unmatched_names
from simgpu.workload.lora import Lora
from simgpu.workload.op import Gemm
from simgpu.workload.training import Training
from simgpu.workload.unit import GradientReady

PLAIN = Training(sequence_length=128, micro_batch_size=1, accumulation=1)
LLAMA = bundled_model("llama-3-8b")
HIDDEN, KEYS, FFN = 4096, 1024, 14336


def units(model=LLAMA, scattered=1, **training):
    recipe = replace(PLAIN, **training)
    return trained_units(model_units(model, recipe), model, recipe, scattered=scattered)


def block(**training):
    return units(**training).layers[0].units[0]


def trained(parts):
    return sum(p.elements for unit in parts.units for p in unit.parameters if not p.frozen and p.tied is None)


def flops(items):
    return sum(item.flops for item in items)


def test_nothing_frozen_changes_nothing():
    parts = model_units(LLAMA, PLAIN)
    assert trained_units(parts, LLAMA, PLAIN) is parts


@pytest.mark.parametrize(
    ("targets", "per_layer"),
    [  # rank x (inputs + outputs) of each projection: huggingface/peft's "trainable params"
        (("q_proj", "v_proj"), (HIDDEN + HIDDEN) + (HIDDEN + KEYS)),
        (("all-linear",), 2 * (HIDDEN + HIDDEN) + 2 * (HIDDEN + KEYS) + 3 * (HIDDEN + FFN)),
    ],
)
def test_lora_trains_rank_times_inputs_plus_outputs(targets, per_layer):
    assert trained(units(lora=Lora(rank=16, targets=targets))) == 32 * 16 * per_layer


def test_published_counts_of_trainable_parameters():
    """huggingface/peft on Llama-3-8B, rank 16: q and v 6,815,744; all linear layers 41,943,040."""
    assert trained(units(lora=Lora(rank=16, targets=("q_proj", "v_proj")))) == 6_815_744
    assert trained(units(lora=Lora(rank=16))) == 41_943_040


def test_a_frozen_block_has_half_the_products_of_its_backward():
    """No weight gradient; the gradients of inputs stay, and attention's."""
    whole, frozen = block(), block(lora=Lora(rank=1, targets=("down_proj",)))
    products = [item.name for item in frozen.backward if isinstance(item, Gemm) and ".lora_" not in item.name]
    assert products == ["mlp.down.dgrad", "mlp.gate_up.dgrad", "attention.out.dgrad", "attention.qkv.dgrad"]
    gemms = sum(item.flops for item in whole.backward if isinstance(item, Gemm))
    left = sum(item.flops for item in frozen.backward if isinstance(item, Gemm) and ".lora_" not in item.name)
    assert 2 * left == gemms
    assert not any("weight_gradient" in item.name for item in frozen.backward if hasattr(item, "name"))
    (mark,) = [item for item in frozen.backward if isinstance(item, GradientReady)]
    assert mark.parameters == ("mlp.down.down_proj.lora_A", "mlp.down.down_proj.lora_B")


def test_adapters_run_beside_their_product_forward_and_backward():
    adapted = block(lora=Lora(rank=8, targets=("v_proj",)))
    names = [item.name for item in adapted.forward]
    at = names.index("attention.qkv")
    assert names[at + 1 : at + 4] == [
        "attention.qkv.v_proj.lora_A",
        "attention.qkv.v_proj.lora_B",
        "attention.qkv.v_proj.lora_sum",
    ]
    extra = flops(adapted.forward) - flops(block().forward)
    assert extra == 2 * 128 * 8 * (HIDDEN + KEYS)
    back = [item for item in adapted.backward if ".lora_" in getattr(item, "name", "")]
    assert flops(back) == 2 * extra, "every product of a forward has two in backward"


def test_frozen_layers_keep_no_inputs_but_attention_its_output():
    """bf16, 128 tokens: the inputs of qkv, gate_up and down; the output projection's is read by flash attention."""
    saved = 2 * 128 * (HIDDEN + HIDDEN + FFN)
    kept = block(frozen_names=("attention", "mlp"))
    assert block().saved_bytes - kept.saved_bytes == saved
    adapted = block(lora=Lora(rank=4))
    assert adapted.saved_bytes - block().saved_bytes == 2 * 128 * 4 * 7, "inputs are read by A; x A is kept"


def test_under_sequence_parallelism_column_parallel_inputs_are_kept_in_parts():
    recipe = replace(PLAIN, frozen_names=("attention", "mlp"))
    parts = model_units(LLAMA, recipe, tp=4, sequence_parallel=True)
    kept = trained_units(parts, LLAMA, recipe, scattered=4).layers[0].units[0]
    saved = parts.layers[0].units[0].saved_bytes - kept.saved_bytes
    assert saved == 2 * 128 * (HIDDEN + HIDDEN + FFN) // 4


def test_full_recomputation_repeats_the_adapters_and_keeps_the_blocks_input_only():
    adapted = block(lora=Lora(rank=4), recompute="full")
    assert adapted.recompute == adapted.forward
    assert adapted.saved_bytes == 2 * 128 * HIDDEN
    assert adapted.recomputed_bytes == block(recompute="full").recomputed_bytes + 2 * 128 * 4 * 7


def test_backward_ends_at_the_lowest_trained_weight():
    parts = units(frozen_share=0.25)
    asleep = [not layer.units[0].backward for layer in parts.layers]
    assert asleep == [True] * 8 + [False] * 24
    assert not parts.embedding.backward
    assert parts.layers[0].units[0].saved_bytes == parts.layers[0].units[0].backward_bytes == 0
    assert trained(parts) == LLAMA.parameters - LLAMA.vocab * HIDDEN - 8 * LLAMA.block_parameters


def test_a_frozen_unit_above_a_trained_one_passes_gradients_on():
    parts = units(frozen_names=("head", "block"))
    assert parts.embedding.backward
    assert all(layer.units[0].backward for layer in parts.layers)
    assert trained(parts) == LLAMA.vocab * HIDDEN, "the table; the final norm is in the head's unit"


def test_a_frozen_embedding_scatters_no_gradient():
    parts = units(frozen_names=("embedding",))
    assert parts.embedding.backward == ()
    assert parts.layers[0].units[0].backward, "the blocks are trained"


def test_convolutions_can_be_frozen_too():
    resnet = bundled_model("resnet-18")
    parts = units(resnet, sequence_length=1, frozen_names=("embedding", "layer1.", "layer2.", "layer3."))
    assert [bool(layer.units[0].backward) for layer in parts.layers] == [False] * 6 + [True] * 2
    assert trained(parts) == 8_393_728 + 513_000


def test_names_are_matched_in_weights_and_kinds():
    parts = model_units(LLAMA, PLAIN)
    assert unmatched_names(parts, ["norm", "gate_up", "head", "q_proj"]) == ("q_proj",)


def test_model_flops_are_those_that_are_left():
    """6 FLOPs per weight and token become 4 where a weight is frozen, and none below the lowest trained one."""
    frozen = replace(PLAIN, frozen_names=("mlp",))
    spared, with_recompute = spared_flops(LLAMA, frozen)
    assert spared == with_recompute == 2 * 128 * 32 * 3 * HIDDEN * FFN
    assert spared_flops(LLAMA, PLAIN) == (0, 0)
    bottom = replace(PLAIN, frozen_share=0.5, recompute="full")
    plain = model_units(LLAMA, replace(PLAIN, recompute="full")).layers[0].units[0]
    assert spared_flops(LLAMA, bottom) == (
        16 * flops(item for item in plain.backward if hasattr(item, "flops")),
        16 * flops(item for item in (*plain.backward, *plain.recompute) if hasattr(item, "flops")),
    )
    adapted = replace(PLAIN, lora=Lora(rank=16))
    wgrads = 2 * 128 * (32 * (HIDDEN * (HIDDEN + 2 * KEYS) + HIDDEN * HIDDEN + 3 * HIDDEN * FFN) + LLAMA.vocab * HIDDEN)
    assert spared_flops(LLAMA, adapted)[0] == wgrads - 6 * 128 * 41_943_040


def test_mfu_counts_what_is_left():
    def mfu(**training):
        (case,) = load_cases(
            {
                "name": "mfu",
                "model": "llama-3-8b",
                "cluster": {"topology": "dgx-a100", "gpus": 2},
                "training": {"sequence_length": 2048, "micro_batch_size": 1, **training},
                "parallel": {"data_parallel": "fsdp"},
            }
        )
        return simulate(case)

    whole, adapted = mfu(), mfu(lora={"rank": 16})
    assert adapted.step_time_ns < 0.8 * whole.step_time_ns
    assert adapted.mfu < 1.05 * whole.mfu


QWEN, TABLE = bundled_model("qwen2.5-7b"), 152064 * 3584
Q_AND_V = 28 * 16 * ((3584 + 3584) + (3584 + 512))


def frozen(parts):
    return sum(p.elements for unit in parts.units for p in unit.parameters if p.frozen and p.tied is None)


@pytest.mark.parametrize(("saved", "tables"), [((), 0), (("lm_head",), 1), (("embed_tokens", "lm_head"), 2)])
def test_saved_modules_are_trained_copies_beside_the_frozen_model(saved, tables):
    lora = Lora(rank=16, targets=("q_proj", "v_proj"), modules_to_save=saved)
    parts = units(QWEN, lora=lora)
    assert trained(parts) == Q_AND_V + tables * TABLE
    assert frozen(parts) == QWEN.parameters


@pytest.mark.parametrize("saved", [("embed_tokens",), ("lm_head",), ("embed_tokens", "lm_head")])
def test_a_copy_of_a_tied_table_is_tied_no_more(saved):
    """huggingface/peft copies each module by itself; what is left of the shared table is one frozen original."""
    tied = replace(QWEN, tied_embeddings=True)
    lora = Lora(rank=16, targets=("q_proj", "v_proj"), modules_to_save=saved)
    parts = units(tied, lora=lora)
    assert trained(parts) == Q_AND_V + len(saved) * TABLE
    assert frozen(parts) == tied.parameters


def test_saved_modules_have_their_own_weight_gradients():
    plain, whole = (
        spared_flops(QWEN, replace(PLAIN, lora=Lora(rank=16, modules_to_save=saved)))[0]
        for saved in ((), ("embed_tokens", "lm_head"))
    )
    assert plain - whole == 2 * 128 * TABLE  # of the head; the embedding's is no product
    parts = units(QWEN, lora=Lora(rank=16, modules_to_save=("embed_tokens", "lm_head")))
    names = [item.name for unit in (parts.head, parts.embedding) for item in unit.backward if hasattr(item, "name")]
    assert "head.wgrad" in names
    assert "embedding.backward" in names
    ready = [name for unit in parts.units for item in unit.backward if isinstance(item, GradientReady)
             for name in item.parameters if ".lora_" not in name]  # fmt: skip
    assert sorted(ready) == ["embedding.weight", "head.weight"]


def test_saved_modules_cost_memory_and_traffic():
    """DDP, bf16 weights with fp32 gradients, masters and moments: 2 more for the copy, 16 for its training."""

    def play(saved):
        data = {
            "model": "qwen2.5-7b", "cluster": {"topology": "dgx-a100"}, "parallel": {"data_parallel": "ddp"},
            "training": {"sequence_length": 512, "micro_batch_size": 1, "param_dtype": "bf16", "grad_dtype": "fp32",
                         "reduce_dtype": "fp32", "master_dtype": "fp32",
                         "lora": {"rank": 16, "targets": ["q_proj", "v_proj"], "modules_to_save": saved}},
        }  # fmt: skip
        return simulate(load_cases(data)[0])

    without, with_it = play([]), play(["embed_tokens", "lm_head"])
    before, after = without.memory_by_category_bytes, with_it.memory_by_category_bytes
    assert after["weights"] - before["weights"] == 2 * 2 * TABLE
    assert after["optimizer"] - before["optimizer"] == 12 * 2 * TABLE
    assert after["gradients"] == 4 * (2 * TABLE + Q_AND_V)
    assert with_it.step_time_ns > without.step_time_ns
