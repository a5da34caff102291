import pytest

from simgpu.dtypes import DType
from simgpu.errors import TopologyError
from simgpu.hardware.gpu import gpu, gpu_names
from simgpu.hardware.link_type import link_type, switch_hop_ns


def test_peaks_are_the_dense_datasheet_figures():
    # pytorch/torchtitan tools/utils.py: A100 312e12, H100 SXM 989e12, H100 PCIe 756e12, H100 NVL 835e12
    peaks = {"A100-SXM4-80GB": 312.0, "H100-SXM5-80GB": 989.4, "H100-PCIe-80GB": 756.0, "H100-NVL-94GB": 835.0}
    assert {name: gpu(name).peak_tflops(DType.BF16) for name in peaks} == peaks


def test_formats_a_gpu_lacks_fall_back_to_the_nearest():
    v100, a100 = gpu("V100-SXM2-32GB"), gpu("A100-SXM4-80GB")
    assert v100.bf16_tflops is None
    assert v100.peak_tflops(DType.BF16) == v100.peak_tflops(DType.FP16) == 125.0
    assert v100.peak_tflops(DType.TF32) == v100.peak_tflops(DType.FP32) == 15.7
    assert a100.peak_tflops(DType.FP8) == 312.0
    assert a100.peak_tflops(DType.TF32) == 156.0


def test_sustained_rates_measured_scaled_and_assumed():
    assert (gpu("A100-SXM4-80GB").gemm_tflops, gpu("A100-SXM4-80GB").rate_flag) == (254.0, "M")
    assert (gpu("MI250X").gemm_tflops, gpu("MI250X").rate_flag) == (1.03 * 200, "A")  # from sust_bf16
    assert (gpu("L4").gemm_tflops, gpu("L4").rate_flag) == (58.0, "M")
    assert (gpu("A30").gemm_tflops, gpu("A30").rate_flag) == (round(0.76 * 165, 1), "A")  # PCIe card, no figure at all
    assert gpu("A100-SXM4-80GB").sustained_tflops(DType.TF32) == pytest.approx(127.0)
    assert gpu("H100-SXM5-80GB").sustained_tflops(DType.FP8) == pytest.approx(1.03 * 1230, abs=0.1)
    assert gpu("V100-SXM2-32GB").sustained_tflops(DType.TF32) == pytest.approx(14.4)  # measured
    assert gpu("A30").sustained_tflops(DType.FP32) == pytest.approx(0.7 * 10.3)


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_is_complete(name):
    found = gpu(name.lower())
    assert found is gpu(name)
    assert found.memory_bytes == int(found.memory_gib * 2**30) > 0
    assert 0.3 < found.hbm_efficiency < 1
    assert found.rate_flag in ("M", "S", "A")
    assert found.source
    for dtype in DType:
        assert 0 < found.sustained_tflops(dtype) <= found.peak_tflops(dtype)


def test_assumed_bandwidths_are_those_nobody_published():
    # the others rest on elementwise kernels or BabelStream on the card, or on one with the same chip and memory
    assert {name for name in gpu_names() if gpu(name).hbm_flag == "A"} == {
        "RTX-2080Ti", "A30", "A10", "RTX-3090", "RTX-3090Ti", "L40", "L40S", "RTX-4090", "RTX-6000-Ada", "RTX-5090",
        "RTX-PRO-6000-Blackwell", "H100-SXM5-96GB-HBM2e", "H100-PCIe-80GB", "H100-NVL-94GB", "H20-96GB",
        "B200-SXM-180GB", "GB200", "B300-SXM-288GB", "GB300", "MI250X", "MI325X", "MI355X",
    }  # fmt: skip


def test_assumed_rates_are_those_nobody_published():
    assumed = {"A30", "H100-SXM5-96GB-HBM2e", "H100-NVL-94GB", "MI250X"}
    assert {name for name in gpu_names() if gpu(name).rate_flag == "A"} == assumed


def test_no_rate_was_derived_from_a_step_time():
    assert "D" not in {flag for name in gpu_names() for flag in (gpu(name).rate_flag, gpu(name).hbm_flag)}


@pytest.mark.parametrize("name", gpu_names())
def test_measured_and_scaled_figures_name_their_source(name):
    found = gpu(name)
    if found.hbm_flag in ("M", "S"):
        assert "HBM eff" in found.source or "microsoft/vidur" in found.source
    if found.rate_flag in ("M", "S"):
        assert "GEMM" in found.source or "sustained" in found.source


def test_memory_is_counted_in_gib():
    assert gpu("A100-SXM4-80GB").memory_bytes == 80 * 2**30


def test_geforce_cards_have_no_peer_access():
    without = {name for name in gpu_names() if not gpu(name).pcie_p2p}
    assert without == {"RTX-2080Ti", "RTX-3090", "RTX-3090Ti", "RTX-4090", "RTX-5090"}


def test_unknown_gpu_says_what_may_be_meant():
    with pytest.raises(TopologyError, match=r"no GPU is named 'A100-SXM'; did you mean A100-SXM4-40GB, A100-SXM4-80GB"):
        gpu("A100-SXM")
    with pytest.raises(TopologyError, match="known: P100-SXM2-16GB"):
        gpu("zzzzz")


def test_link_types_carry_achieved_and_nominal_rates():
    hdr = link_type("IB HDR 200G", network=True)
    assert (hdr.bytes_per_s, hdr.nominal_bytes_per_s, hdr.latency_ns) == (24 * 10**9, 25 * 10**9, 900)
    assert link_type("UPI Skylake").bytes_per_s == 10 * 10**9  # NCCL's constant stands for both
    assert link_type("NVLink3 link (A100)").latency_ns == 0
    assert (switch_hop_ns(True), switch_hop_ns(False)) == (100, 600)


def test_link_types_of_machines_and_networks_are_told_apart():
    with pytest.raises(TopologyError, match="no link type"):
        link_type("IB HDR 200G")
    with pytest.raises(TopologyError, match="no network link type"):
        link_type("PCIe 4.0 x16", network=True)
