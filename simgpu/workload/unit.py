"""A unit: one embedding, transformer block or head, as one tensor-parallel rank runs it."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.workload.op import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One weight tensor: ``elements`` held by this tensor-parallel rank, ``total`` in the whole model.

    ``tied`` names the parameter of another unit that is the same tensor (GPT-2's head and embedding).
    ``replicated`` says that every tensor-parallel rank holds all of it (norms).
    ``expert`` marks routed experts' weights, which expert parallelism divides.
    ``frozen`` says that it is not trained: no gradient, no optimizer state.
    ``accumulated`` says that its weight-gradient GEMM adds into the stored gradient itself; ``fp8`` that its GEMMs
    read an fp8 copy of it. ``vector`` says that it has one dimension: a bias, the scale of a norm.
    """

    name: str
    elements: int
    total: int
    replicated: bool = False
    tied: str | None = None
    expert: bool = False
    accumulated: bool = False
    fp8: bool = False
    frozen: bool = False
    vector: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Start a collective of ``bytes`` (payload of the whole collective) on the stream of an axis.

    ``send_ring`` is a send from every rank to the next, ``bytes`` each, ``copy_ring`` the same by copy engines; of an
    ``all_to_all`` ``bytes`` is what one rank sends, its own share included.
    """

    kind: str  # all_reduce | all_gather | reduce_scatter | all_to_all | send_ring | copy_ring
    bytes: int
    tag: str  # unique within one pass
    axis: str = "tp"  # communicator: tp | cp | ep | dp


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Wait for the exchange of that tag; what follows needs its result."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientReady:
    """The gradients of these parameters (by name) are final for this micro-batch."""

    parameters: tuple[str, ...]


PassItem = Op | Exchange | Join | GradientReady


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One piece of the model in execution order, with its forward and backward pass.

    Parameters
    ----------
    kind : str
        ``embedding``, ``block``, ``head``, or ``entry`` for what a decoder or a pipeline stage does before its blocks.
    parameters : tuple of Parameter
        In registration order.
    forward, backward : tuple of PassItem
        One micro-batch on one rank. Backward holds dgrad, wgrad and GradientReady marks.
    recompute : tuple of PassItem
        What is run again before (or in) backward; empty without recomputation.
    saved_bytes : int
        Activations kept from forward to backward per micro-batch under the chosen recomputation.
    recomputed_bytes : int
        Activations that exist only between the recomputation and the end of backward.
    logits_bytes : int
        Logits and what the loss keeps of them, from forward to the end of backward.
    backward_bytes : int
        Gradients of activations that exist only while this unit runs backward.
    late_bytes : int
        Of those, what is there until the last gradient of the unit's weights: the gradient of its input, and with a
        re-entrant checkpoint its input, its output and the output's gradient.
    output_bytes : int
        The tensor handed to the next unit by one rank (divided by tp under sequence parallelism).
    buffer_bytes : int
        State that is neither trained nor an activation: running statistics of batch norms.
    """

    kind: str
    parameters: tuple[Parameter, ...]
    forward: tuple[PassItem, ...]
    backward: tuple[PassItem, ...]
    recompute: tuple[PassItem, ...] = ()
    saved_bytes: int = 0
    recomputed_bytes: int = 0
    logits_bytes: int = 0
    backward_bytes: int = 0
    late_bytes: int = 0
    output_bytes: int = 0
    buffer_bytes: int = 0

    @property
    def elements(self) -> int:
        """Parameters held by this rank, tied ones not counted again."""
        return sum(p.elements for p in self.parameters if p.tied is None)
