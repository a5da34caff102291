"""Ranks that are slower than they should be, and op times that scatter: a Program with other durations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

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
    roles, ranks, stretcher = list(program.roles), [], _Stretcher(dict(program.disturbed_ns))
    alike: dict[tuple[int, float], int] = {}  # role and factor without jitter -> the role with that factor
    for binding in program.ranks:
        (rank,) = binding.members
        key = binding.role, (perturbation.slow or {}).get(rank, 1.0)
        if not perturbation.jitter and key[1] == 1.0:
            ranks.append(binding)
            continue
        if perturbation.jitter or key not in alike:
            alike[key] = len(roles)
            original = program.roles[binding.role]
            factors = perturbation.factors(rank, stretcher.kernels(original))
            roles.append(stretcher.stretched(original, factors))
        ranks.append(replace(binding, role=alike[key]))
    return replace(program, roles=tuple(roles), ranks=tuple(ranks), disturbed_ns=stretcher.disturbed_ns)


@dataclass(slots=True)
class _Stretcher:
    """Makes roles whose kernels take longer; kernels that come out alike are one.

    Parameters
    ----------
    disturbed_ns : dict
        What kernels take beside communication; grows by the new ones.
    """

    disturbed_ns: dict[Kernel, tuple[int, ...]]
    _known: dict[tuple[int, int], Kernel] = field(default_factory=dict)  # original by identity, and duration
    _durations: dict[int, NDArray[np.float64]] = field(default_factory=dict)  # by identity of the role

    def kernels(self, role: Role) -> int:
        """Return how many kernels a role runs."""
        return len(self._of(role))

    def _of(self, role: Role) -> NDArray[np.float64]:
        found = self._durations.get(id(role))
        if found is None:
            works = (item for stream in role.streams.values() for item in stream if isinstance(item, Compute))
            durations = [kernel.duration_ns for work in works for kernel in work.kernels]
            found = self._durations[id(role)] = np.array(durations, np.float64)
        return found

    def stretched(self, role: Role, factors: NDArray[np.float64]) -> Role:
        """Multiply the durations of a role's kernels."""
        durations = iter(np.rint(self._of(role) * factors).astype(np.int64).tolist())

        def instruction(original: Instruction) -> Instruction:
            if not isinstance(original, Compute):
                return original
            kernels = tuple([self._kernel(kernel, next(durations)) for kernel in original.kernels])
            return Compute(
                name=original.name,
                kernels=kernels,
                duration_ns=sum([kernel.duration_ns for kernel in kernels]),
                phase=original.phase,
                microbatch=original.microbatch,
                unit=original.unit,
            )

        return replace(role, streams={name: tuple(map(instruction, stream)) for name, stream in role.streams.items()})

    def _kernel(self, original: Kernel, duration_ns: int) -> Kernel:
        """Return a kernel with another duration, and note what that is beside communication."""
        if duration_ns == original.duration_ns:
            return original
        found = self._known.get((id(original), duration_ns))
        if found is None:
            found = replace(original, duration_ns=max(1, duration_ns))
            self._known[id(original), duration_ns] = found
            beside = self.disturbed_ns.get(original)
            if beside is not None and found not in self.disturbed_ns:
                share = found.duration_ns / original.duration_ns
                times = (max(found.duration_ns, math.ceil(time_ns * share)) for time_ns in beside)
                self.disturbed_ns[found] = tuple(times)
        return found
