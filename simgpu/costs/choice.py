"""What a scenario's ``costs`` block chooses: device rates, power cap, measured table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from simgpu.costs.operating_point import at_rate
from simgpu.dtypes import DType
from simgpu.errors import TopologyError
from simgpu.hardware.gpu import Gpu

if TYPE_CHECKING:
    from simgpu.costs.table import MeasuredTable

RATES: Final = ("peak", "sustained", "measured")
# F ~ P^x: A100-PCIe runs 233 TFLOP/s at 300 W, A100-SXM4, the same chip, 254 at 400 W (MooreThreads/SimuMax efficiency
# tables and ai-dynamo/aiconfigurator gemm_perf, as in gpus.csv): x = ln(233 / 254) / ln(300 / 400). The only chip
# measured at two limits; for all others an assumption.
POWER_EXPONENT: Final = 0.3
# nvidia-smi takes no lower limit: 100 of 400 W on A100-SXM4 (recalled); others are much the same.
LEAST_POWER: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCosts:
    """How ops are priced.

    Parameters
    ----------
    rates : str
        Matrix rates of the device, one of `RATES`: the datasheet's dense peaks, the catalogue's sustained rates (power
        limit included), or those and no device on which they were not measured.
    power_cap_w : float or None, W
        Power limit set on every GPU; None leaves the card's own.
    table : MeasuredTable or None
        Measured ops, which go before any model.
    """

    rates: str = "sustained"
    power_cap_w: float | None = None
    table: MeasuredTable | None = None

    def device(self, gpu: Gpu) -> Gpu:
        """Return the device with the rates that were chosen.

        Parameters
        ----------
        gpu : Gpu
            As in the catalogue.

        Returns
        -------
        Gpu

        Raises
        ------
        TopologyError
            When the device has no rates of that kind, or cannot be capped so.

        Notes
        -----
        Under a cap P the sustained rates are multiplied by (P / TDP)^0.3. Bandwidth stays, and so does the clock for
        what does not draw the power: few or small tiles, latency, memory (`simgpu.costs.operating_point.at_rate`). At
        ``peak`` rates tiles, waves and launches still cost what they cost; fp32 without tensor cores stays at its
        sustained share.

        Examples
        --------
        >>> from simgpu.hardware.gpu import gpu
        >>> a100 = gpu("A100-SXM4-80GB")
        >>> OpCosts().device(a100) is a100, OpCosts(rates="peak").device(a100).gemm_tflops
        (True, 312.0)
        >>> round(OpCosts(power_cap_w=300).device(a100).gemm_tflops)
        233
        """
        return _device(gpu, self.rates, self.power_cap_w)


CATALOGUE: Final = OpCosts()
"""The catalogue's sustained rates and the model, no table."""


@cache
def _device(gpu: Gpu, rates: str, power_cap_w: float | None) -> Gpu:
    if rates not in RATES:
        raise TopologyError(f"{rates!r} are no rates; allowed: {', '.join(RATES)}")
    if rates == "measured" and gpu.rate_flag != "M":
        raise TopologyError(f"the matrix rate of {gpu.name} was not measured; allowed: peak, sustained")
    if rates == "peak":
        if power_cap_w is not None:
            raise TopologyError("a power cap does nothing to peak rates; allowed: sustained, measured")
        return replace(gpu, gemm_tflops=gpu.peak_tflops(DType.BF16), fp8_gemm_tflops=gpu.fp8_tflops, rate_flag="P")
    if power_cap_w is None:
        return gpu
    least = LEAST_POWER * gpu.tdp_w
    if not least <= power_cap_w <= gpu.tdp_w:
        raise TopologyError(f"{gpu.name} cannot be capped so; allowed: {least:g} to {gpu.tdp_w:g} W")
    if power_cap_w == gpu.tdp_w:
        return gpu
    capped = at_rate(gpu, gpu.gemm_tflops * (power_cap_w / gpu.tdp_w) ** POWER_EXPONENT)
    return replace(capped, rate_flag="A")
