"""Op costs of a measured run: those of its machine, where that machine's own matrix rate was published."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.costs.choice import OpCosts
from simgpu.costs.operating_point import operating_point
from simgpu.hardware.gpu import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCosts(OpCosts):
    """Costs at the operating point of the machine that a source measured on.

    Parameters
    ----------
    source : str
        Where the run was published, as the table says itself.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> RunCosts(source="MooreThreads/SimuMax docs").device(gpu("B200-SXM-180GB")).gemm_tflops
    1140.0
    """

    source: str = ""

    def device(self, gpu: Gpu) -> Gpu:
        """Return the device at the rate that its machine held in a published table of matrix products."""
        own = OpCosts(rates=self.rates, power_cap_w=self.power_cap_w, table=self.table).device(gpu)
        return operating_point(own, self.source) if self.rates != "peak" else own
