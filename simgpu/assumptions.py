"""Everything that the figures of a run rest on: device constants, links, software, memory, defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from simgpu.config.case import Case
from simgpu.config.defaults import defaults
from simgpu.costs.constants import device_constants, device_rows
from simgpu.costs.origin import MEANING
from simgpu.hardware.gpu import Gpu
from simgpu.metrics.assumption import Assumption
from simgpu.metrics.memory import FRAGMENTATION
from simgpu.metrics.report import Report
from simgpu.units import GIB, format_count
from simgpu.workload.architecture import Architecture
from simgpu.workload.software import Software

_LINKS: Final = {"nvlink": "NVLink", "pcie": "PCIe", "network": "network port", "socket": "between CPUs"}
_ALLOWANCES: Final = {"context": "CUDA context", "communication": "buffers of NCCL and torch.distributed"}
_NOT_NUMBERS: Final = frozenset(("key", "flag", "backward_flag", "source", "kernel", "kernels", "device"))
_TRANSFERS: Final = {
    "measured": ("measured", "a fit to nccl-tests of such a system: simgpu/data/collective_fits.csv"),
    "constructed": ("derived", "link rates (simgpu/data/links.csv) and NCCL's own constants (nccl_constants.csv)"),
    "free": ("given", "network: free"),
}


def assumptions(case: Case, report: Report, given: frozenset[str] = frozenset()) -> tuple[Assumption, ...]:
    """List what the figures of a run rest on, each with its source.

    Parameters
    ----------
    case : Case
    report : Report
        Of this case.
    given : frozenset of str
        Dotted fields that the scenario gives itself: `simgpu.config.defaults.given_fields`.

    Returns
    -------
    tuple of Assumption

    Examples
    --------
    >>> import simgpu
    >>> case = simgpu.load_scenario("four_vs_eight").cases[0]
    >>> found = assumptions(case, simgpu.simulate(case))
    >>> found[0].what, found[0].standing
    ('A100-SXM4-80GB: 16-bit matrix products, sustained', 'measured')
    """
    return (
        *_devices(case),
        *_communication(case, report),
        *_software(case),
        *_memory(report),
        *_step(report),
        *defaults(case, given),
    )


def _devices(case: Case) -> Iterator[Assumption]:
    if not isinstance(case.model, Architecture):
        yield Assumption(
            topic="GPU", what="times of all passes", value="as the scenario's model says", standing="given"
        )
        return
    cards = [case.cluster.gpu(rank) for rank in range(min(case.cluster.world_size, case.cluster.gpus_per_node))]
    for card in {card.name: card for card in cards}.values():
        gpu = case.costs.device(card)

        def fact(what: str, value: str, flag: str, source: str, name: str = gpu.name) -> Assumption:
            standing = MEANING.get(flag, flag)
            return Assumption(topic="GPU", what=f"{name}: {what}", value=value, standing=standing, source=source)

        peak = gpu.bf16_tflops or gpu.fp16_tflops
        rate = f"{gpu.gemm_tflops:.4g} of {peak:.4g} TFLOP/s"
        yield fact("16-bit matrix products, sustained", rate, gpu.rate_flag, gpu.source)
        reached = f"{gpu.hbm_efficiency:.0%} of {gpu.memory_gb_per_s:,.0f} GB/s".replace("%", " %")
        yield fact("memory bandwidth that elementwise kernels reach", reached, gpu.hbm_flag, gpu.source)
        for what, row in _tables(gpu, case.software).items():
            yield fact(what, _numbers(row), row["flag"], row["source"])
    if case.costs.table is not None:
        name = case.costs.table.name
        yield Assumption(
            topic="GPU", what="measured ops, before any model", value=name, standing="measured", source=name
        )


def _tables(gpu: Gpu, software: Software) -> Mapping[str, Mapping[str, str]]:
    found = {
        "tiles and launches of matrix products": device_constants("gemm", gpu),
        "shortest kernels and gaps between kernels": device_constants("memory", gpu),
    }
    if software.flash_attention:
        rows = device_rows("attention", gpu)
        kernel = next((row for row in rows if row["kernel"] == software.attention_kernel), rows[0])
        found[f"attention kernel {kernel['kernel']}"] = kernel
    return found


def _numbers(row: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if name not in _NOT_NUMBERS and value)


def _communication(case: Case, report: Report) -> Iterator[Assumption]:
    kinds = {one.source for one in report.transfers}
    if not kinds:
        return
    for kind, (standing, source) in _TRANSFERS.items():
        if kind in kinds:
            names = sorted({one.algorithm for one in report.transfers if one.source == kind})
            yield Assumption(
                topic="communication", what=f"times of transfers ({', '.join(names)})", value=kind, standing=standing,
                source=source,
            )  # fmt: skip
    if kinds == {"free"}:
        return
    standing = "" if case.nccl.measured is None else "measured collectives go first"
    yield Assumption(
        topic="communication", what="NCCL's version and its choices", value=case.nccl.version, standing=standing,
        source="NVIDIA/nccl src/graph/tuning.cc; the scenario's network block",
    )  # fmt: skip
    used = {link.kind for link in report.timeline.program.links} if report.timeline is not None else set()
    links = case.cluster.links
    distinct = map(links.__getitem__, case.cluster.distinct(np.arange(len(links))))
    rates = {(link.kind, link.bytes_per_s, link.nominal_bytes_per_s) for link in distinct}
    for kind, rate, nominal in sorted(rates):
        if kind in used:
            yield Assumption(
                topic="communication",
                what=f"{_LINKS.get(kind, kind)}, per direction",
                value=f"{rate / 1e9:.4g} of {nominal / 1e9:.4g} GB/s",
                standing="what NCCL reaches",
                source=f"topology {case.cluster.name}; simgpu/data/links.csv",
            )


def _software(case: Case) -> Iterator[Assumption]:
    if not isinstance(case.model, Architecture):
        return
    software, host = case.software, case.software.host
    fused = [
        name.removeprefix("fused_").replace("_", " ")
        for name in software.__slots__
        if name.startswith("fused_") and getattr(software, name)
    ]
    attention = software.attention_kernel or "first of the device" if software.flash_attention else "two batched GEMMs"
    value = f"attention: {attention}; fused: {', '.join(fused) or 'nothing'}; optimizer: {software.optimizer}"
    yield Assumption(
        topic="software", what=f"generation {software.name}", value=value, source="docs/software.md, and there the code"
    )
    costs = "nothing waits for the CPU" if host.free else (
        f"forward op {host.forward_op_ns / 1e3:g} us, backward op {host.backward_op_ns / 1e3:g} us, "
        f"collective {host.collective_ns / 1e3:g} us"
    )  # fmt: skip
    yield Assumption(
        topic="software", what="CPU time to issue work", value=costs, standing="measured",
        source="profiler traces and micro-benchmarks: benchmarks/host_costs.csv",
    )  # fmt: skip


def _memory(report: Report) -> Iterator[Assumption]:
    for category, words in _ALLOWANCES.items():
        size = report.memory_by_category_bytes.get(category)
        if size:
            yield Assumption(
                topic="memory", what=words, value=f"{size / GIB:.2f} GiB", standing="allowance",
                source="counted in the peak, outside PyTorch's allocator",
            )  # fmt: skip
    low, high = FRAGMENTATION
    yield Assumption(
        topic="memory",
        what="fragmentation of PyTorch's allocator",
        value=f"{100 * low:.0f} to {100 * high:.0f} %",
        standing="not counted",
        source="what the caching allocator holds beyond what is allocated",
    )


def _step(report: Report) -> Iterator[Assumption]:
    steady = report.timeline is None or report.timeline.steady
    yield Assumption(
        topic="step",
        what="the step reported",
        value="a steady one" if steady else "the last one played",
        standing="" if steady else "not steady",
        source="steps are played until the next one would be the same again",
    )
    if report.peak_flops_used:
        yield Assumption(
            topic="step", what="peak that MFU counts against", value=f"{format_count(report.peak_flops_used)}FLOP/s",
            standing="datasheet", source="dense, per GPU",
        )  # fmt: skip
