"""The routed experts of a mixture-of-experts layer: their sizes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from simgpu.errors import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """MLPs of which every token visits a few.

    Parameters
    ----------
    count, active : int
        Experts of a layer, and those that one token visits.
    ffn : int
        Inner width of one expert.
    shared_ffn : int
        Inner width of the MLP that every token visits besides (all shared experts together); 0 without one.
    shared_gate : bool
        A weight per token on the shared MLP (Qwen2-MoE).
    gated : bool
        A gate beside the up projection (SwiGLU, GeGLU): three matrices; otherwise two.

    Raises
    ------
    ModelError
        Names every number that cannot be.

    Examples
    --------
    >>> mixtral = Experts(count=8, active=2, ffn=14336)
    >>> mixtral.matmul_parameters(4096) == 8 * 3 * 4096 * 14336 + 8 * 4096
    True
    """

    count: int
    active: int
    ffn: int
    shared_ffn: int = 0
    shared_gate: bool = False
    gated: bool = True

    def __post_init__(self) -> None:
        problems = []
        for field in fields(self)[:4]:
            value, least = getattr(self, field.name), 0 if field.name == "shared_ffn" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                problems.append(f"experts.{field.name} = {value!r} must be a whole number of at least {least}")
        if not problems and self.active > self.count:
            problems.append(f"experts.active = {self.active} is more than the {self.count} experts")
        if not problems and self.shared_gate and not self.shared_ffn:
            problems.append("experts.shared_gate = True needs shared experts")
        if problems:
            raise ModelError("\n".join(problems))

    @property
    def matrices(self) -> int:
        """Matrices of one expert."""
        return 3 if self.gated else 2

    def matmul_parameters(self, hidden: int) -> int:
        """Return the weights of router, experts and shared MLP for a model of that width."""
        return self.count * self.matrices * hidden * self.ffn + self._common(hidden)

    def active_matmul_parameters(self, hidden: int) -> int:
        """Return the weights that one token meets.

        Examples
        --------
        >>> Experts(count=8, active=2, ffn=10).active_matmul_parameters(4)
        272
        """
        return self.active * self.matrices * hidden * self.ffn + self._common(hidden)

    def _common(self, hidden: int) -> int:
        shared = self.matrices * hidden * self.shared_ffn
        return self.count * hidden + shared + (hidden if self.shared_gate else 0)
