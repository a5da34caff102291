"""GPUs: datasheet peaks and measured sustained rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from simgpu.dtypes import DType
from simgpu.errors import TopologyError
from simgpu.hardware.table import read_table, suggestion

# The table's sustained rate is the median over large shapes; the tile model wants the rate of the best tile.
# Canonical recipe without tuning per case: F = 1.03 x sustained (fit over ai-dynamo/aiconfigurator gemm_perf tables).
_TILE_RATE_OVER_SUSTAINED: Final = 1.03
# Where no rate was published (A30): fraction of the datasheet's 16-bit peak that power-limited PCIe cards reach, as
# A100-PCIe does (A40 0.80).
_ASSUMED_FRACTION: Final = 0.76
# Elementwise kernels on cards of which nobody published a figure; as A100-80GB and RTX-3090 (0.87).
_ASSUMED_HBM_EFFICIENCY: Final = 0.87
# fp32 on CUDA cores where it was not measured: SIMT peak x .85-.9 before Ampere's GeForce line, .5-.7 since, where half
# of the units also do integers (zzc0721/torch-performance-test-data).
_SIMT_FRACTION: Final = 0.7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gpu:
    """One GPU model. Compared by identity: `gpu` returns the same object for the same name.

    Parameters
    ----------
    name, arch, compute_capability, form : str
        ``A100-SXM4-80GB``, ``Ampere``, ``8.0``, ``SXM4``.
    sm_count : int
        Streaming multiprocessors (compute units on AMD).
    memory_gib : float, GiB
        Device memory; vendors write this figure as GB.
    memory_gb_per_s : float, GB/s
        Nominal bandwidth of device memory.
    hbm_efficiency : float
        Fraction of it that elementwise kernels reach.
    hbm_flag : str
        Standing of ``hbm_efficiency``: M measured, A assumed.
    fp32_tflops, tf32_tflops, fp16_tflops, bf16_tflops, fp8_tflops : float or None, TFLOP/s
        Dense datasheet peaks; None where the GPU has no such units.
    gemm_tflops : float, TFLOP/s
        Sustained 16-bit matrix rate F of the tile model, power limit included.
    rate_flag : str
        Standing of ``gemm_tflops``: M measured, S scaled from the best of shapes or from another card of the same chip,
        A assumed.
    fp8_gemm_tflops : float or None, TFLOP/s
        The same for fp8, where it was measured.
    fp32_share : float
        Fraction of ``fp32_tflops`` that products on CUDA cores reach.
    power_share : float
        Sustained rates over the catalogue's, where a lower power limit or a machine's own load moves them: what runs
        too briefly, or on too few multiprocessors, to meet the power limit keeps the catalogue's clock.
    l2_mib : float, MiB
        Last-level cache.
    nvlink : str
        Link generation, empty without one.
    nvlink_count : int
        Links of one GPU.
    nvlink_gb_per_s : float, GB/s
        All of them together, per direction, nominal.
    pcie_generation : int
    pcie_gb_per_s : float, GB/s
        Per direction, nominal, 16 lanes.
    pcie_p2p : bool
        Whether peers and NICs may reach its memory over PCIe; no on GeForce cards with the stock driver.
    source : str
        Where the figures come from.
    """

    name: str
    arch: str
    compute_capability: str
    form: str
    sm_count: int
    memory_gib: float
    memory_gb_per_s: float
    hbm_efficiency: float
    hbm_flag: str
    fp32_tflops: float
    tf32_tflops: float | None
    fp16_tflops: float
    bf16_tflops: float | None
    fp8_tflops: float | None
    gemm_tflops: float
    rate_flag: str
    fp8_gemm_tflops: float | None
    fp32_share: float
    l2_mib: float
    tdp_w: float
    nvlink: str
    nvlink_count: int
    nvlink_gb_per_s: float
    pcie_generation: int
    pcie_gb_per_s: float
    pcie_p2p: bool
    source: str
    power_share: float = 1.0

    @property
    def memory_bytes(self) -> int:
        """Device memory in bytes, ``memory_gib`` x 2**30."""
        return int(self.memory_gib * 2**30)

    def peak_tflops(self, dtype: DType) -> float:
        """Dense datasheet peak for arithmetic in a number format.

        A GPU without units for the format is given the figure of the nearest one it has: fp16 for bf16 (V100),
        16 bits for fp8 (A100), fp32 for tf32 (V100).

        Parameters
        ----------
        dtype : DType

        Returns
        -------
        float, TFLOP/s

        Examples
        --------
        >>> gpu("A100-SXM4-80GB").peak_tflops(DType.BF16), gpu("V100-SXM2-32GB").peak_tflops(DType.BF16)
        (312.0, 125.0)
        """
        sixteen = self.bf16_tflops or self.fp16_tflops
        match dtype:
            case DType.FP32:
                return self.fp32_tflops
            case DType.TF32:
                return self.tf32_tflops or self.fp32_tflops
            case DType.FP16:
                return self.fp16_tflops
            case DType.BF16:
                return sixteen
            case DType.FP8:
                return self.fp8_tflops or sixteen

    def sustained_tflops(self, dtype: DType) -> float:
        """Sustained matrix rate in a number format: the rate F of the tile model.

        Notes
        -----
        16 bits: ``gemm_tflops``. fp8: measured, else scaled with the datasheet. tf32: scaled with the datasheet;
        fp32 (and tf32 without tensor cores for it): ``fp32_share`` of the datasheet's SIMT peak.

        Parameters
        ----------
        dtype : DType

        Returns
        -------
        float, TFLOP/s

        Examples
        --------
        >>> gpu("A100-SXM4-80GB").sustained_tflops(DType.TF32)
        127.0
        """
        if dtype == DType.FP32 or (dtype == DType.TF32 and self.tf32_tflops is None):
            return self.fp32_share * self.fp32_tflops
        if dtype == DType.FP8 and self.fp8_gemm_tflops is not None:
            return self.fp8_gemm_tflops
        return self.gemm_tflops * self.peak_tflops(dtype) / self.peak_tflops(DType.BF16)


def gpu(name: str) -> Gpu:
    """Look a GPU up by name, upper or lower case.

    Parameters
    ----------
    name : str
        As in ``simgpu/data/gpus.csv``.

    Returns
    -------
    Gpu

    Raises
    ------
    TopologyError
        When there is none of that name; says which come close.

    Examples
    --------
    >>> gpu("h100-sxm5-80gb").sm_count
    132
    """
    found = _catalogue().get(name.lower())
    if found is None:
        known = gpu_names()
        hint = suggestion(name, known) or f"known: {', '.join(known)}"
        raise TopologyError(f"no GPU is named {name!r}; {hint}")
    return found


def gpu_names() -> tuple[str, ...]:
    """Names of all GPUs in the catalogue, in its order.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> len(gpu_names())
    42
    """
    return tuple(entry.name for entry in _catalogue().values())


@cache
def _catalogue() -> Mapping[str, Gpu]:
    return {row["name"].lower(): _read(row) for row in read_table("gpus.csv")}


def _read(row: Mapping[str, str]) -> Gpu:
    fp16, bf16 = float(row["fp16_tflops"]), _number(row["bf16_tflops"])
    sustained, tile_rate = _number(row["sust_bf16_tflops"]), _number(row["gemm_F_tflops"])
    flag = row["sust_flag"] or "A"
    if tile_rate is None:
        if sustained is not None:
            tile_rate = round(_TILE_RATE_OVER_SUSTAINED * sustained, 1)
        else:
            tile_rate, flag = round(_ASSUMED_FRACTION * (bf16 or fp16), 1), "A"
    fp8, fp32 = _number(row["sust_fp8_tflops"]), _number(row["gemm_fp32_tflops"])
    return Gpu(
        name=row["name"],
        arch=row["arch"],
        compute_capability=row["cc"],
        form=row["form"],
        sm_count=int(row["sm_count"]),
        memory_gib=float(row["mem_gb"]),
        memory_gb_per_s=float(row["mem_gb_s"]),
        hbm_efficiency=_number(row["hbm_eff"]) or _ASSUMED_HBM_EFFICIENCY,
        hbm_flag=row["hbm_flag"] or "A",
        fp32_tflops=float(row["fp32_tflops"]),
        tf32_tflops=_number(row["tf32_tflops"]),
        fp16_tflops=fp16,
        bf16_tflops=bf16,
        fp8_tflops=_number(row["fp8_tflops"]),
        gemm_tflops=tile_rate,
        rate_flag=flag,
        fp8_gemm_tflops=None if fp8 is None else round(_TILE_RATE_OVER_SUSTAINED * fp8, 1),
        fp32_share=_SIMT_FRACTION if fp32 is None else fp32 / float(row["fp32_tflops"]),
        l2_mib=float(row["l2_mb"]),
        tdp_w=float(row["tdp_w"]),
        nvlink=row["link_gen"],
        nvlink_count=int(row["link_count"] or 0),
        nvlink_gb_per_s=float(row["link_gb_s_per_dir_total"] or 0),
        pcie_generation=int(row["pcie_gen"]),
        pcie_gb_per_s=float(row["pcie_gb_s_per_dir"]),
        pcie_p2p=row["pcie_p2p"] == "yes",
        source=row["source"],
    )


def _number(text: str) -> float | None:
    return float(text) if text else None
