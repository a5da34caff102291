"""Ranks that are slower than they should be, and op times that scatter: a Program with other durations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from simgpu.program import Compute, Instruction, Kernel, Program, Role


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

    def factors(self, rank: int) -> Iterator[float]:
        """Yield by how much each of a rank's kernels is longer, in the order of its program.

        Notes
        -----
        Jitter is log-normal with mean 1, one draw per rank and kernel of a step from a generator of
        ``(seed, rank)``: a rank's draws do not depend on what else is simulated, and are the same in every step.

        Examples
        --------
        >>> from itertools import islice
        >>> list(islice(Perturbation(slow={3: 1.2}).factors(3), 2)), next(Perturbation(slow={3: 1.2}).factors(4))
        ([1.2, 1.2], 1.0)
        """
        slow = (self.slow or {}).get(rank, 1.0)
        generator, sigma = np.random.default_rng((self.seed, rank)), math.sqrt(math.log1p(self.jitter**2))
        while True:
            if not self.jitter:
                yield slow
            else:
                yield from (slow * np.exp(generator.normal(-(sigma**2) / 2, sigma, 1024))).tolist()


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
    >>> from simgpu.program import COMPUTE, Rank
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
    roles, ranks, disturbed = list(program.roles), [], dict(program.disturbed_ns)
    alike: dict[tuple[int, float], int] = {}  # role and factor without jitter -> the role with that factor
    for binding in program.ranks:
        (rank,) = binding.members
        factors = perturbation.factors(rank)
        key = binding.role, next(perturbation.factors(rank))
        if not perturbation.jitter and key[1] == 1.0:
            ranks.append(binding)
            continue
        if perturbation.jitter or key not in alike:
            alike[key] = len(roles)
            roles.append(_stretched(program.roles[binding.role], factors, disturbed))
        ranks.append(replace(binding, role=alike[key]))
    return replace(program, roles=tuple(roles), ranks=tuple(ranks), disturbed_ns=disturbed)


def _stretched(role: Role, factors: Iterator[float], disturbed: dict[Kernel, tuple[int, ...]]) -> Role:
    """Multiply the durations of a role's kernels, and add what the new ones are beside communication."""

    def kernel(original: Kernel) -> Kernel:
        duration_ns = round(original.duration_ns * next(factors))
        if duration_ns == original.duration_ns:
            return original
        longer = replace(original, duration_ns=max(1, duration_ns))
        beside = disturbed.get(original)
        if beside is not None and longer not in disturbed:
            share = longer.duration_ns / original.duration_ns
            disturbed[longer] = tuple(max(longer.duration_ns, math.ceil(time_ns * share)) for time_ns in beside)
        return longer

    def instruction(original: Instruction) -> Instruction:
        if not isinstance(original, Compute):
            return original
        kernels = tuple(map(kernel, original.kernels))
        return replace(original, kernels=kernels, duration_ns=sum(each.duration_ns for each in kernels))

    return replace(role, streams={name: tuple(map(instruction, stream)) for name, stream in role.streams.items()})
