"""Ranks that are slower than they should be, and op times that scatter: a Program with other durations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simgpu.lower.laid_out import LaidOutRanks, roles_of, with_roles
from simgpu.lower.stretching import StretchedTimes, Stretcher
from simgpu.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """Disturbances of computation; those of links are in the cluster.

    Parameters
    ----------
    slow : mapping of int to float
        Ranks, and how many times as long their kernels take.
    jitter : float
        Standard deviation of a kernel's duration over its mean.
    seed : int
        Of the jitter.

    Examples
    --------
    >>> bool(Perturbation()), bool(Perturbation(slow={3: 1.2}))
    (False, True)
    """

    slow: Mapping[int, float] | None = None
    jitter: float = 0.0
    seed: int = 0

    def __bool__(self) -> bool:
        return bool(self.slow) or self.jitter > 0

    def factors(self, rank: int, count: int) -> NDArray[np.float64]:
        """Return by how much each of a rank's kernels is longer, in the order of its program.

        Parameters
        ----------
        rank : int
        count : int
            Kernels.

        Returns
        -------
        (count,) float64

        Notes
        -----
        Jitter is log-normal with mean 1, one draw per rank and kernel of a step from a generator of
        ``(seed, rank)``: a rank's draws do not depend on what else is simulated, and are the same in every step.

        Examples
        --------
        >>> slow = Perturbation(slow={3: 1.2})
        >>> slow.factors(3, 2).tolist(), slow.factors(4, 1).tolist()
        ([1.2, 1.2], [1.0])
        """
        slow = (self.slow or {}).get(rank, 1.0)
        if not self.jitter:
            return np.full(count, slow)
        generator, sigma = np.random.default_rng((self.seed, rank)), math.sqrt(math.log1p(self.jitter**2))
        blocks = -(-count // _DRAWS)  # whole ones: what a draw gives must not depend on how many there are
        found: NDArray[np.float64] = slow * np.exp(generator.normal(-(sigma**2) / 2, sigma, blocks * _DRAWS))
        return found[:count]


_DRAWS: Final = 1024
UNDISTURBED: Final = Perturbation()


def perturbed(program: Program, perturbation: Perturbation) -> Program:
    """Give slow ranks, and with jitter every rank, a role of their own with other durations.

    Folding goes by roles, so that the partition is refined as far as it has to be: a slow rank is a class of its own,
    and under jitter every rank is. What communication beside it does to a kernel grows with its duration.

    Parameters
    ----------
    program : Program
        With one rank per entry.
    perturbation : Perturbation

    Returns
    -------
    Program
        The same object where nothing is disturbed.

    Examples
    --------
    >>> from simgpu.program import COMPUTE, Compute, Kernel, Rank, Role
    >>> work = Compute(name="a", kernels=(Kernel(name="a", op_class="gemm", duration_ns=10),), duration_ns=10, phase="")
    >>> role = Role(name="r", stages=(0,), position={}, streams={COMPUTE: (work,)}, resident_bytes={},
    ...             capacity_bytes=1, device="d")
    >>> two = Program(roles=(role,), ranks=tuple(Rank(role=0, groups={}, members=(i,)) for i in (0, 1)), groups=(),
    ...               communicators={}, links=(), transfers={})
    >>> slow = perturbed(two, Perturbation(slow={1: 1.5}))
    >>> [slow.roles[rank.role].streams[COMPUTE][0].duration_ns for rank in slow.ranks]
    [10, 15]
    """
    if not perturbation:
        return program
    stretcher = Stretcher()
    roles, number = list(program.roles), roles_of(program.ranks).copy()
    slow = perturbation.slow or {}
    alike: dict[tuple[int, float], int] = {}  # role and factor without jitter -> the role with that factor
    for index in range(len(number)) if perturbation.jitter else sorted(slow):
        rank = index if isinstance(program.ranks, LaidOutRanks) else program.ranks[index].members[0]
        key = int(number[index]), slow.get(rank, 1.0)
        if not perturbation.jitter and key[1] == 1.0:
            continue
        if perturbation.jitter or key not in alike:
            alike[key] = len(roles)
            original = program.roles[key[0]]
            roles.append(stretcher.stretched(original, perturbation.factors(rank, stretcher.kernels(original))))
        number[index] = alike[key]
    return replace(
        program,
        roles=tuple(roles),
        ranks=with_roles(program.ranks, number),
        disturbed_ns=StretchedTimes(program.disturbed_ns, stretcher.variants) if program.disturbed_ns else {},
    )
