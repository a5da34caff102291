import pytest

from simgpu.costs.datasheet import IMPLAUSIBLE, formats, lacking, over_datasheet
from simgpu.costs.gemm import gemm_ns
from simgpu.costs.memory_bound import memory_bound_ns
from simgpu.costs.origin import origin
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu, gpu_names
from simgpu.workload.op import Attention, Gemm, MemoryBound, Timed

CORE = {"batch": 1, "sequence": 64, "heads": 2, "kv_heads": 2, "head_dim": 64}


@pytest.mark.parametrize(
    ("name", "able"),
    [
        ("P100-SXM2-16GB", "fp32 fp16"),
        ("A100-SXM4-80GB", "fp32 tf32 bf16 fp16"),
        ("H100-SXM5-80GB", "fp32 tf32 bf16 fp16 fp8"),
    ],
)
def test_formats(name, able):
    device = gpu(name)
    assert [dtype.value for dtype in formats(device)] == able.split()
    for dtype in DType:
        assert (lacking(Gemm(name="", m=8, n=8, k=8, dtype=dtype), device) is None) == (dtype.value in able.split())


def test_fused_attention_in_wide_formats_is_an_extrapolation():
    """PyTorch has a memory-efficient kernel for them, of which no times were found."""
    wide = Attention(name="", dtype=DType.TF32, **CORE)
    assert lacking(wide, gpu("A100-SXM4-80GB")) is None
    assert origin(wide, gpu("A100-SXM4-80GB")).flag == "E"


def test_what_has_no_format_lacks_none():
    assert (
        lacking(MemoryBound(name="", bytes=8), gpu("T4")) is lacking(Timed(name="", duration_ns=1), gpu("T4")) is None
    )


@pytest.mark.parametrize("name", gpu_names())
def test_no_time_of_the_model_is_impossible(name):
    device = gpu(name)
    for size in (64, 1024, 8192):
        op = Gemm(name="", m=size, n=size, k=size, dtype=DType.FP16)
        assert over_datasheet(op, gemm_ns(op, device), device) < IMPLAUSIBLE
        add = MemoryBound(name="", bytes=size**2 * 6)
        assert over_datasheet(add, memory_bound_ns(add, device), device) < IMPLAUSIBLE


def test_traffic_that_no_cache_holds_goes_at_the_memorys_pace():
    h100 = gpu("H100-SXM5-80GB")  # 3350 GB/s, 50 MiB of L2
    assert over_datasheet(MemoryBound(name="", bytes=3350 * 10**6), 1e5, h100) == pytest.approx(10)
    assert over_datasheet(MemoryBound(name="", bytes=33_500_000), 1e3, h100) == pytest.approx(1)
