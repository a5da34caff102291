"""docs/software.md says of every preset what it sets: all of it, and as the code does."""

from dataclasses import fields
from pathlib import Path

import pytest

from simgpu.workload.software import PRESETS, Software

DOC = Path(__file__).parents[2] / "docs" / "software.md"
FUSED, CHAIN = "one kernel", "chain"
ROWS = {
    "RMSNorm": lambda it: FUSED if it.fused_norm else CHAIN,
    "bias + GeLU": lambda it: FUSED if it.fused_bias_activation else CHAIN,
    "bias + dropout + residual": lambda it: FUSED if it.fused_bias_dropout_residual else "up to three",
    "rotary embedding": lambda it: FUSED if it.fused_rope else CHAIN,
    "SwiGLU": lambda it: FUSED if it.fused_swiglu else "two kernels",
    "cross-entropy": lambda it: (
        ("three passes" if it.loss_in_place else "two passes") if it.fused_cross_entropy else "chain in fp32"
    ),
    "bias of q, k and v": lambda it: "a kernel of its own" if it.bias_kernel else "in the GEMM",
    "weight gradients": lambda it: "added in the GEMM" if it.fused_wgrad_accumulation else "added by a kernel",
    "optimizer": lambda it: {"megatron": "Megatron's chain", "for_loop": "tensor by tensor"}.get(
        it.optimizer, it.optimizer
    ),
    "fp8": lambda it: f"{it.fp8_scaling} scaling" if it.fp8_scaling else "",
    "dropout when not given": lambda it: f"{it.dropout:g}",
    "sum of the input gradient over `tp`": lambda it: (
        "under the weight gradient" if it.async_dgrad_reduce else "waited for"
    ),
    "cross-entropies taken as metrics": lambda it: str(it.training_metrics),
    "gradient of the logits": lambda it: "in their place" if it.loss_in_place else "beside them",
    "products with a number, soft caps": lambda it: (
        "in the kernels around" if it.fused_scaling else "kernels of their own"
    ),
    "placeholder for a gradient added in the GEMM": lambda it: "kept" if it.dummy_gradients else "no",
    "checkpoint": lambda it: "re-entrant" if it.reentrant_checkpoint else "not",
    "CPU time of an op forward, backward": lambda it: (
        f"{it.host.forward_op_ns // 1000}, {it.host.backward_op_ns // 1000} us"
    ),
}
FIELDS = {
    "fused_norm", "fused_bias_activation", "fused_bias_dropout_residual", "fused_rope", "fused_swiglu",
    "fused_cross_entropy", "bias_kernel", "fused_wgrad_accumulation", "optimizer", "fp8_scaling",
    "dropout", "async_dgrad_reduce", "training_metrics", "loss_in_place", "dummy_gradients", "reentrant_checkpoint",
    "fused_scaling", "host",
}  # fmt: skip
CORE = {"flash_attention", "softmax", "attention_kernel"}  # the row "attention core", in words


def table():
    lines = [line for line in DOC.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    head = [cell.strip() for cell in lines[0].strip("|").split("|")]
    rows = {}
    for line in lines[2:]:
        label, *cells = (cell.strip() for cell in line[1:-1].split("|"))
        if len(cells) == len(head) - 1:
            rows[label] = dict(zip(head[1:], cells, strict=True))
    return rows


@pytest.mark.parametrize("label", ROWS)
def test_the_table_says_what_the_presets_set(label):
    assert table()[label] == {name: ROWS[label](software) for name, software in PRESETS.items()}


def test_nothing_that_presets_set_is_missing():
    names = {field.name for field in fields(Software)} - {"name"}
    differing = {name for name in names if len({repr(getattr(one, name)) for one in PRESETS.values()}) > 1}
    assert differing == FIELDS | CORE
    assert set(table()) == {"stands for", "attention core", *ROWS}


def test_only_the_cpu_dropout_and_a_count_are_numbers():
    # no preset has a factor on a time
    for software in PRESETS.values():
        numbers = {
            field.name
            for field in fields(software)
            if isinstance(getattr(software, field.name), int | float)
            and not isinstance(getattr(software, field.name), bool)
        }
        assert numbers == {"dropout", "training_metrics"}
