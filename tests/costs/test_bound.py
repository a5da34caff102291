import pytest

from simgpu.costs.bound import bound
from simgpu.costs.origin import origin
from simgpu.costs.table import MeasuredTable
from simgpu.hardware.gpu import gpu, gpu_names
from simgpu.workload.op import Attention, Gemm, MemoryBound, Timed

H100 = gpu("H100-SXM5-80GB")
ATTENTION = {"heads": 32, "kv_heads": 32, "head_dim": 128}


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (Gemm(name="x", m=8192, n=8192, k=8192), "compute"),
        (Gemm(name="x", m=16, n=16384, k=16384), "memory"),  # 0.5 GB for 8.6 GFLOP
        (Gemm(name="x", m=16, n=16, k=16), "launch"),
        (Attention(name="x", batch=1, sequence=8192, **ATTENTION), "compute"),
        (Attention(name="x", batch=1, sequence=1, **ATTENTION), "launch"),
        (MemoryBound(name="x", bytes=10**9), "memory"),
        (MemoryBound(name="x", bytes=1), "launch"),
        (MemoryBound(name="x", bytes=0), "nothing"),
        (Timed(name="x", duration_ns=5), "given"),
    ],
)
def test_the_term_that_decides(op, expected):
    assert bound(op, H100) == expected


@pytest.mark.parametrize("name", gpu_names())
def test_every_device_has_an_answer(name):
    assert bound(Gemm(name="x", m=8192, n=8192, k=8192), gpu(name)) == "compute"
    assert bound(MemoryBound(name="x", bytes=10**10), gpu(name)) == "memory"


def test_the_weakest_constant_gives_the_flag():
    add = MemoryBound(name="x", bytes=8)
    assert origin(add, gpu("A100-SXM4-80GB")).flag == "M"
    assumed = origin(add, gpu("H100-PCIe-80GB"))
    assert (assumed.source, assumed.flag) == ("model", "A")
    assert "bandwidth A" in assumed.detail
    assert origin(Timed(name="x", duration_ns=1), H100).source == "given"


def test_a_table_is_named():
    row = Gemm(name="x", m=64, n=64, k=64)
    found = origin(row, H100, MeasuredTable("mine.csv", [(row, 1e3)]))
    assert (found.source, found.detail) == ("table exact", "mine.csv")
