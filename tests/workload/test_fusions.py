"""What Megatron's --no-*-fusion cost: further passes over the same tensors, and nothing else."""

from dataclasses import replace

import pytest

from simgpu.config import load_cases
from simgpu.errors import ScenarioError
from simgpu.workload.op import MemoryBound
from simgpu.workload.software import PRESETS
from tests.workload.generations import GPT, LLAMA, TOKENS, units

E = 2
STREAM, WIDE = E * TOKENS * GPT.hidden, E * TOKENS * GPT.ffn


def added(preset, model, *fusions, **rest):
    """Bytes of the kernels of a block's forward and backward that come on top, by name."""

    def moved(software):
        block = units(software, model, **rest).block
        ops = [(op.name, op.bytes) for op in (*block.forward, *block.backward) if isinstance(op, MemoryBound)]
        assert len(dict(ops)) == len(ops)
        return dict(ops)

    whole, parts = moved(PRESETS[preset]), moved(PRESETS[preset].without(*fusions))
    names = {*whole, *parts}
    changes = {name: parts.get(name, 0) - whole.get(name, 0) for name in names}
    return {name: change for name, change in changes.items() if change}


def test_a_bias_before_gelu_is_one_pass_more():
    assert added("te", GPT, "bias_activation") == {"mlp.bias": 2 * WIDE}


def test_an_unfused_swiglu_is_two_kernels_forward_and_four_backward():
    inner = E * TOKENS * LLAMA.ffn
    found = added("te", LLAMA, "bias_activation")  # there is no bias
    assert sum(found.values()) == inner * ((2 + 3) - 3 + (3 + 3 + 3 + 4) - 5)
    assert "mlp.bias" not in found


def test_bias_dropout_and_residual_apart_read_and_write_the_stream_again():
    found = added("te", GPT, "bias_dropout")
    assert found == {f"{half}.bias": 2 * STREAM for half in ("attention", "mlp")}  # without dropout
    with_dropout = added("te", GPT, "bias_dropout", dropout=0.1)
    assert sum(with_dropout.values()) == 2 * STREAM * (2 + 2 + 3 - 3)  # bias 2, dropout 2, sum 3 for one kernel of 3


def test_rope_apart_is_five_passes_of_a_tensor_forward_and_more_backward():
    heads = LLAMA.heads + LLAMA.kv_heads
    found = added("te", LLAMA, "rope")
    assert sum(found.values()) == E * TOKENS * heads * LLAMA.head_dim * (10 - 2 + 15 - 2)


def test_a_gradient_that_the_product_does_not_add_is_no_longer_accumulated():
    software = PRESETS["te"].without("gradient_accumulation")
    assert PRESETS["te"].fused_wgrad_accumulation
    assert software == replace(PRESETS["te"], fused_wgrad_accumulation=False)


def scenario(**software):
    data = {
        "model": "gpt2", "cluster": {"topology": "dgx-a100", "gpus": 8}, "software": software,
        "training": {"sequence_length": 64, "micro_batch_size": 1}, "parallel": {"data_parallel": "ddp"},
    }  # fmt: skip
    return load_cases(data)[0].software


def test_a_scenario_switches_fusions_off():
    assert scenario(preset="te", unfused="Rope") == PRESETS["te"].without("rope")
    assert scenario(preset="te", unfused=["rope", "bias_dropout"]) == PRESETS["te"].without("bias_dropout", "rope")
    assert scenario(preset="megatron-2022", softmax="half") == replace(PRESETS["megatron-2022"], softmax="half")


@pytest.mark.parametrize(
    ("software", "told"),
    [
        ({"preset": "eager", "unfused": ["rope"]}, "unfused = .*means nothing to eager, which does not have"),
        ({"preset": "te", "softmax": "half"}, "softmax = half: means nothing to te, whose attention is one kernel"),
        ({"preset": "te", "unfused": ["gelu"]}, "gelu: is not known.*allowed: bias_activation, bias_dropout, rope"),
    ],
)  # fmt: skip
def test_what_there_is_not_cannot_be_switched_off(software, told):
    with pytest.raises(ScenarioError, match=told):
        scenario(**software)
