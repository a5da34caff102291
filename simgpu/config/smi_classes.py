"""An ``nvidia-smi topo -m`` matrix with questions about it: islands of NVLinks, sockets, the GPU it can be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from simgpu.config.import_parts import gpus_where
from simgpu.io.import_file import refusal

_NEAR: Final = frozenset({"PIX", "PXB", "PHB", "NODE"})
_MOST_NAMED: Final = 6


@dataclass(slots=True)
class Matrix:
    """A matrix as `simgpu.io.nvidia_smi.read_smi_matrix` reads it, with questions about it.

    Parameters
    ----------
    source : str
    data : mapping
    """

    source: str
    data: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    @property
    def gpus(self) -> list[str]:
        return list(self.data["gpus"])

    @property
    def devices(self) -> list[str]:
        """GPUs, then NICs."""
        return [*self.data["gpus"], *self.data["nics"]]

    def of(self, a: str, b: str) -> str:
        """Class of a pair."""
        return str(self.data["classes"][a][b])

    def nvlinks(self, a: str, b: str) -> int:
        """NVLinks of a pair, 0 without."""
        found = self.of(a, b)
        return int(found[2:]) if found.startswith("NV") else 0

    def islands(self) -> list[list[str]]:
        """Find the groups of two and more GPUs that NVLinks join."""
        groups = Groups(self.gpus)
        for a, b in combinations(self.gpus, 2):
            if self.nvlinks(a, b):
                groups.join(a, b)
        return [group for group in groups.listed() if len(group) > 1]

    def is_switched(self, island: Sequence[str], most: int) -> bool:
        """Whether NVSwitches join an island: all pairs alike, with more links in all than a GPU has."""
        counts = {self.nvlinks(a, b) for a, b in combinations(island, 2)}
        return len(counts) == 1 and len(island) > 2 and (len(island) - 1) * max(counts) > most

    def links_of(self, a: str, island: Sequence[str]) -> int:
        """NVLinks of a GPU if each goes to one other GPU."""
        return sum(self.nvlinks(a, b) for b in island if b != a)

    def domains(self) -> list[list[str]]:
        """Devices of each ``cpu``: nothing between them crosses SYS."""
        groups = Groups(self.devices)
        for a, b in combinations(self.devices, 2):
            if self.of(a, b) in _NEAR:
                groups.join(a, b)
        affinity = self.data["affinity"]
        keys = {gpu: (affinity[gpu]["cpu"], affinity[gpu]["numa"]) for gpu in self.gpus}
        pairs = list(combinations(self.gpus, 2))
        for a, b in pairs:
            if keys[a] == keys[b] and any(keys[a]):
                self._join_if_near(groups, a, b)
        for a, b in pairs:  # NVLink hides the class: one socket, unless something says otherwise
            if self.nvlinks(a, b) and (keys[a] == keys[b] or not (any(keys[a]) and any(keys[b]))):
                self._join_if_near(groups, a, b)
        return groups.listed()

    def _join_if_near(self, groups: Groups, a: str, b: str) -> None:
        apart = any(self.of(x, y) == "SYS" for x in groups.members(a) for y in groups.members(b))
        if not apart:
            groups.join(a, b)


class Groups:
    """A partition of names that only grows coarser."""

    def __init__(self, names: Sequence[str]) -> None:
        self._group: dict[str, list[str]] = {name: [name] for name in names}

    def join(self, a: str, b: str) -> None:
        mine, other = self._group[a], self._group[b]
        if mine is other:
            return
        mine.extend(other)
        for name in other:
            self._group[name] = mine

    def members(self, name: str) -> list[str]:
        return self._group[name]

    def listed(self) -> list[list[str]]:
        order = {name: index for index, name in enumerate(self._group)}
        unique = {id(group): group for group in self._group.values()}
        return sorted((sorted(group, key=order.__getitem__) for group in unique.values()), key=lambda g: order[g[0]])


def choose_model(matrix: Matrix) -> str:
    """Name the GPU that the matrix can be of, where there is only one.

    Parameters
    ----------
    matrix : Matrix

    Returns
    -------
    str

    Raises
    ------
    ScenarioError
        Otherwise, with the models it may be.
    """
    pairs = [matrix.nvlinks(a, b) for a, b in combinations(matrix.gpus, 2)]
    most = max(pairs, default=0)
    # More than three peers with one bond of more than two links each: only through NVSwitches (no GPU has above 18).
    total = max((matrix.links_of(gpu, matrix.gpus) for gpu in matrix.gpus), default=0)
    switched = most > 0 and any(matrix.is_switched(island, max(most, 18)) for island in matrix.islands())
    choices = gpus_where(links=most if switched else total, switched=switched)
    if len(choices) == 1:
        matrix.notes.append(f"the GPU is taken to be {choices[0]}, the only one whose NVLinks make this matrix")
        return choices[0]
    seen = f"NV{most} between GPUs leaves several" if most else "a matrix has classes of paths, no models"
    shown = ", ".join(choices[:_MOST_NAMED]) + (", ..." if len(choices) > _MOST_NAMED else "")
    problem = f"does not say of which model its GPUs are ({seen})"
    if most and not choices:
        raise refusal(matrix.source, f"has {total} NVLinks at one GPU, more than any GPU SimGPU knows")
    raise refusal(matrix.source, problem, fix=f"give --gpu MODEL, such as {shown}")
