"""Orders with whole weights on every rank: one GPU, PyTorch DDP, Megatron's DDP."""

import pytest

from simgpu.config import load_cases
from simgpu.lower import lower
from simgpu.lower.gradients import SEARCH_NS
from simgpu.program import HOST, Issue
from tests.lower.printer import golden, kernels, streams
from tests.lower.tiny import ALL, DOWN, EMBEDDING, GATE_UP, NORM, OUT, QKV, roles

# bucket_cap_mb 0.15 is 157,286 B: a bucket closes with the gradient that brings it to 39,322 fp32 elements.
# Gradients become ready as head, final norm, then per block down, gate_up, norm2, out, qkv, norm1, then embedding.
FIRST = EMBEDDING + NORM + DOWN + GATE_UP  # head, final norm, and block 1 up to gate_up: 41,024
SECOND = NORM + OUT + QKV + NORM + DOWN + GATE_UP  # the rest of block 1, and block 0 up to gate_up: 41,088
THIRD = NORM + OUT + QKV + NORM + EMBEDDING  # the rest: 32,896
SMALL_BUCKETS = {"bucket_cap_mb": 0.15}


def test_buckets_by_hand():
    assert (FIRST, SECOND, THIRD) == (41024, 41088, 32896)
    assert FIRST + SECOND + THIRD == ALL


def test_one_gpu_accumulates_and_steps():
    (role,) = roles(gpus=1)
    assert streams(role) == golden(
        f"""
        compute: F0 embedding | F0 block 0 | F0 block 1 | F0 head    -- units in order
                 B0 head | B0 block 1 | B0 block 0 | B0 embedding    -- and back, before the next micro-batch
                 F1 embedding | F1 block 0 | F1 block 1 | F1 head
                 B1 head | B1 block 1 | B1 block 0 | B1 embedding
                 gradient norm = {4 * ALL}                           -- reads fp32 gradients; nobody to ask
                 optimizer = {(8 + 28) * ALL}                        -- clip reads and writes; AdamW 28 B
        """
    )


def test_pytorch_ddp_reduces_buckets_beside_the_last_backward():
    (role,) = roles(data_parallel="ddp", ddp=SMALL_BUCKETS)
    assert streams(role) == golden(
        f"""
        compute: F0 embedding | F0 block 0 | F0 block 1 | F0 head
                 B0 head | B0 block 1 | B0 block 0 | B0 embedding    -- no_sync: the first micro-batch reduces nothing
                 F1 embedding | F1 block 0 | F1 block 1 | F1 head
                 B1 head | B1 block 1                                -- until gate_up's gradient fills bucket 1
                 flatten gradients@1 = {8 * FIRST}                   -- copied into the bucket: read 4, write 4
                 B1 block 1 #2 | B1 block 0                          -- goes on without waiting
                 flatten gradients@1 #2 = {8 * SECOND}
                 B1 block 0 #2 | B1 embedding
                 flatten gradients@1 #3 = {8 * THIRD}
                 <reduce gradients to embedding.weight@1>            -- the last bucket; the dp stream is in order
                 unflatten gradients = {8 * ALL}                     -- and back out of the buckets
                 gradient norm = {4 * ALL} | optimizer = {36 * ALL}  -- every rank has all of them: no norm to reduce
        dp: <flatten gradients@1>
            reduce gradients to mlp.gate_up.weight@1 = all_reduce {4 * FIRST}
            <flatten gradients@1 #2>
            reduce gradients to mlp.gate_up.weight@1 #2 = all_reduce {4 * SECOND}
            <flatten gradients@1 #3>
            reduce gradients to embedding.weight@1 = all_reduce {4 * THIRD}
        """
    )
    assert role.resident_bytes["buckets"] == 4 * ALL


def test_pytorch_ddp_without_a_cap_starts_with_one_mebibyte():
    (role,) = roles(data_parallel="ddp")
    reductions = [token for token in streams(role)["dp"] if " = " in token]
    assert reductions == [f"reduce gradients to embedding.weight@1 = all_reduce {4 * ALL}"], "460 kB fit in 1 MiB"


def test_megatron_ddp_averages_its_main_gradients_in_place():
    """Stage 0 of two (embedding, block 0) in buckets of 39,322 elements as above; stage 1 (block 1, head) in one.

    Each is divided by the replicas where it lies: 4 B read and written. Only on the first stage is the end of backward
    the end of the step's; Megatron cuts nothing elsewhere.
    """
    first, last = roles(gpus=4, pp=2, data_parallel="ddp", ddp=SMALL_BUCKETS)
    block = DOWN + GATE_UP + NORM + OUT + QKV + NORM
    held = block + EMBEDDING
    assert streams(first)["compute"][-10:] == [
        "<recv B1>",
        "B1 block 0",  # down, gate_up, norm2, out, qkv: 41,024 elements, full with qkv
        f"average gradients@1 = {8 * (block - NORM)}",
        "B1 block 0 #2",
        "B1 embedding",
        f"average gradients@1 #2 = {8 * (NORM + EMBEDDING)}",
        "<reduce gradients to embedding.weight@1>",  # joined after the whole backward
        f"gradient norm = {4 * held}",
        "<reduce gradient norm>",  # stages hold different gradients
        f"optimizer = {(8 + 30 + 4) * held}",  # clip; AdamW with bf16 weights and fp32 master; main_grad cleared
    ]
    assert streams(first)["dp"] == [
        "<average gradients@1>",
        f"reduce gradients to attention.qkv.weight@1 = all_reduce {4 * (block - NORM)}",
        "<average gradients@1 #2>",
        f"reduce gradients to embedding.weight@1 = all_reduce {4 * (NORM + EMBEDDING)}",
    ]
    assert streams(last)["dp"] == [
        "<average gradients@1>",
        f"reduce gradients to norm1.weight@1 = all_reduce {4 * (block + NORM + EMBEDDING)}",
    ]
    assert not any("flatten" in token for role in (first, last) for token in streams(role)["compute"])
    assert "buckets" not in first.resident_bytes


def test_megatron_of_2021_flattens_its_16_bit_gradients_and_copies_them_back():
    """2 B an element: flattened (4 B) and divided (4 B) before the reduction, copied back (4 B) behind it."""
    formats = {"grad_dtype": "bf16", "reduce_dtype": "bf16"}
    role = roles(gpus=4, pp=2, data_parallel="ddp", ddp={"bucket_cap_mb": 1_000}, training=formats)[1]
    held = DOWN + GATE_UP + NORM + OUT + QKV + NORM + NORM + EMBEDDING
    compute = streams(role)["compute"]
    assert [token for token in compute if token.startswith("average")] == [f"average gradients@1 = {8 * held}"]
    assert [token for token in compute if token.startswith("unflatten")] == [f"unflatten gradients = {4 * held}"]


PLAIN = [
    ("norm1", "memory_bound"),
    ("attention.qkv", "gemm"),
    ("attention.rope", "memory_bound"),
    ("attention.core", "attention"),
    ("attention.out", "gemm"),
    ("attention.residual", "memory_bound"),
    ("norm2", "memory_bound"),
    ("mlp.gate_up", "gemm"),
    ("mlp.swiglu", "memory_bound"),
    ("mlp.down", "gemm"),
    ("mlp.residual", "memory_bound"),
]


@pytest.mark.parametrize("data_parallel", ["none", "ddp"])
def test_autocast_casts_the_weights_of_every_gemm(data_parallel):
    (role,) = roles(gpus=1 if data_parallel == "none" else 2, data_parallel=data_parallel)
    with_casts = []
    for name, op_class in PLAIN:
        with_casts += [(f"{name}.weight.cast", "memory_bound")] * (op_class == "gemm") + [(name, op_class)]
    assert kernels(role)["F0 block 0"] == with_casts
    assert ("head.weight.cast", "memory_bound") in kernels(role)["F0 head"]


@pytest.mark.parametrize("data_parallel", ["zero1", "zero2", "zero3", "fsdp"])
def test_weights_kept_or_gathered_in_bf16_are_not_cast(data_parallel):
    (role,) = roles(data_parallel=data_parallel)
    assert kernels(role)["F0 block 0"] == PLAIN


def test_nor_are_megatrons():
    assert kernels(roles(pp=2)[0])["F0 block 0"] == PLAIN


@pytest.mark.parametrize(
    ("wanted", "first", "later"),
    [
        ({"gpus": 1}, 6, 18),  # .grad in fp32: cast 2 + 4; later also read 4 + 4, write 4
        ({"data_parallel": "ddp"}, 6, 18),
        ({"data_parallel": "zero1"}, 0, 6),  # bf16 .grad taken as it is, later read 2 + 2, write 2
        ({"data_parallel": "zero2"}, 0, 0),  # straight into the bucket
        ({"data_parallel": "fsdp"}, 0, 0),
        ({"gpus": 4, "pp": 2}, 10, 10),  # main_grad: read 2 + 4, write 4, from the first
    ],
)
def test_what_keeping_a_gradient_moves_per_element(wanted, first, later):
    moved = {0: 0, 1: 0}
    for role in roles(**wanted):
        for item in role.streams["compute"]:
            for kernel in getattr(item, "kernels", ()):
                if kernel.name.endswith(".grad_accumulate"):
                    moved[item.microbatch] += kernel.bytes
    assert moved == {0: first * ALL, 1: later * ALL}


def issues(role):
    return [item for item in role.streams[HOST] if isinstance(item, Issue)]


def one_step(**ddp):
    (role,) = roles(data_parallel="ddp", ddp={**SMALL_BUCKETS, **ddp})
    return streams(role)


def test_without_no_sync_every_micro_batch_reduces_and_waits():
    found = one_step(no_sync=False)
    waits = [token for token in found["compute"] if token.startswith(("<", "unflatten"))]
    assert waits == [
        "<reduce gradients to embedding.weight@0>",
        f"unflatten gradients@0 = {8 * ALL}",
        "<reduce gradients to embedding.weight@1>",
        f"unflatten gradients@1 = {8 * ALL}",
    ]
    assert len([token for token in found["dp"] if "all_reduce" in token]) == 6


def test_a_bucket_view_is_not_copied_back():
    found = one_step(gradient_as_bucket_view=True)
    assert [token for token in found["compute"] if "flatten" in token] == [
        f"flatten gradients@1 = {8 * FIRST}",
        f"flatten gradients@1 #2 = {8 * SECOND}",
        f"flatten gradients@1 #3 = {8 * THIRD}",
    ]


def test_the_search_for_unused_weights_keeps_the_first_buckets_and_reduces_a_map():
    """Registration order is filled from the front: the bucket that leaves last is full, the first holds the rest."""
    found = one_step(find_unused_parameters=True)
    reduced = [int(token.split()[-1]) for token in found["dp"] if "all_reduce" in token]
    full = EMBEDDING + NORM + QKV + OUT + NORM + GATE_UP  # embedding, block 0 up to gate_up
    second = DOWN + NORM + QKV + OUT + NORM + GATE_UP
    assert reduced == [4 * (ALL - full - second), 4 * second, 4 * full, 4 * 15]  # 15 weight tensors
    assert found["dp"][-1].startswith("reduce map of used weights")
    assert found["compute"][-4] == "<reduce map of used weights to embedding.weight@1>"
    static = one_step(find_unused_parameters=True, static_graph=True)
    assert static == one_step()


@pytest.mark.parametrize("static", [False, True])
def test_the_search_is_the_cpus_work_between_forward_and_backward(static):
    (role,) = roles(
        data_parallel="ddp",
        ddp={"find_unused_parameters": True, "static_graph": static},
        software={"host_issue_ns": 7000},
    )
    issued = [(issue.op_ns, role.streams[issue.stream][issue.instruction]) for issue in issues(role)]
    searches = [index for index, (_, item) in enumerate(issued) if item.name == "find unused weights"]
    if static:
        assert not searches
        return
    (at,) = searches  # not in the first micro-batch, which does not reduce
    assert issued[at][0] == 15 * SEARCH_NS
    assert (issued[at - 1][1].name, issued[at + 1][1].name) == ("forward head", "backward head")


def resnet(**options):
    (case,) = load_cases(
        {
            "name": "resnet",
            "model": "resnet-18",
            "cluster": {"topology": "dgx-a100", "gpus": 2},
            "training": {"micro_batch_size": 2, "gradient_accumulation": 2, "precision": "fp32"},
            "parallel": {"data_parallel": "ddp"},
            "ddp": options,
        }
    )
    (role,) = lower(case.cluster, case.model, case.training, case.strategy, software=case.software).roles
    return streams(role)


def test_buffers_of_batch_norms_are_broadcast_before_the_first_forward_of_a_step():
    """The forward after a micro-batch under no_sync does not synchronise them (distributed.py, _sync_buffers)."""
    size = 8 * 4800 + 20 * 8
    found = resnet()
    assert found["compute"][:4] == [
        f"flatten buffers@0 = {2 * size}",
        "<broadcast buffers@0>",
        f"unflatten buffers@0 = {2 * size}",
        "F0 embedding",
    ]
    assert found["dp"][:2] == ["<flatten buffers@0>", f"broadcast buffers@0 = broadcast {size}"]
    assert sum("broadcast" in token for token in found["dp"]) == 1
    assert [int(token.split()[-1]) for token in found["dp"] if "all_reduce" in token] == [
        2_052_000,
        28_852_224,
        15_853_824,
    ]
    assert resnet(broadcast_buffers=False)["compute"][0] == "F0 embedding"
