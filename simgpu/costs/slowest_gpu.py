"""The slowest of many GPUs of one kind, at which ranks that wait for each other run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import Final

from simgpu.costs.operating_point import at_rate
from simgpu.hardware.gpu import Gpu

SPREAD: Final = 0.08 / 5.4
"""Standard deviation of the speed at which GPUs of one kind and one site run what their power limits. Whole sites
(Summit, Longhorn, Frontera, Vortex, Corona) vary by 8 % on average, outliers left aside (arXiv 2208.11035, abstract);
taken as the range between the whiskers of a box plot, 5.4 deviations of a normal distribution."""


def slowness(gpus: int) -> float:
    """Return how much longer the slowest of some GPUs is expected to take than the middle one, as a share.

    Parameters
    ----------
    gpus : int

    Returns
    -------
    float

    Notes
    -----
    ``SPREAD`` times the expected largest of n standard normal deviates, by Blom's formula: the (n - 3/8) / (n + 1/4)
    quantile. It grows by about 0.3 % of the time for every doubling of the GPUs.

    Examples
    --------
    >>> [round(100 * slowness(n), 1) for n in (1, 2, 8, 64, 512, 4096)]
    [0.0, 0.9, 2.1, 3.5, 4.5, 5.3]
    """
    return SPREAD * NormalDist().inv_cdf((gpus - 0.375) / (gpus + 0.25))


@cache
def slowest_gpu(gpu: Gpu, gpus: int) -> Gpu:
    """Return the device at the matrix rate of the slowest of so many.

    Matrix products run into the power limit, and chips differ in how fast they are there. A training step keeps a card
    at its limit, whose control is slower than any kernel, so that the clock that the limit leaves it is that of every
    product, short ones too. What memory limits differs by about 1 %, which is left out.

    Parameters
    ----------
    gpu : Gpu
        The middle of its kind.
    gpus : int
        How many work together.

    Returns
    -------
    Gpu

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> a100 = gpu("A100-SXM4-80GB")
    >>> slowest_gpu(a100, 1) is a100, round(slowest_gpu(a100, 512).gemm_tflops / a100.gemm_tflops, 3)
    (True, 0.957)
    """
    if gpus < 2:
        return gpu
    return replace(at_rate(gpu, gpu.gemm_tflops / (1 + slowness(gpus))), power_share=gpu.power_share)
