"""Op costs of a measured run: those of the slowest of its GPUs, where all wait for each other."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.costs.choice import OpCosts
from simgpu.costs.operating_point import operating_point
from simgpu.costs.slowest_gpu import slowest_gpu
from simgpu.hardware.gpu import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCosts(OpCosts):
    """Costs on the machines that a source measured on.

    Parameters
    ----------
    source : str
        Where the run was published, as the table says itself: that machine's own matrix rate may be known.
    gpus : int
        Of the run; they differ among themselves.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> RunCosts(source="MooreThreads/SimuMax docs").device(gpu("B200-SXM-180GB")).gemm_tflops
    1140.0
    """

    source: str = ""
    gpus: int = 1

    def device(self, gpu: Gpu) -> Gpu:
        """Return the slowest device, at the rate that its machine held where it published products of its own."""
        own = OpCosts(rates=self.rates, power_cap_w=self.power_cap_w, table=self.table).device(gpu)
        if self.rates == "peak":
            return own
        return slowest_gpu(operating_point(own, self.source), self.gpus)
