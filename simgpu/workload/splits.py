"""How a model is split besides tensor parallelism's rows and columns: sequences, experts, overlapped exchanges."""

from __future__ import annotations

from dataclasses import dataclass

CP_COMM_TYPES = ("p2p", "a2a", "all_gather")
"""Context parallelism's exchanges, under NVIDIA/Megatron-LM's names (``--cp-comm-type``): ring attention, DeepSpeed
Ulysses (arXiv 2309.14509), and keys and values gathered whole (arXiv 2407.21783)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """Context, expert and overlapped tensor parallelism as one rank sees them.

    Parameters
    ----------
    cp : int
        Context-parallel degree: every sequence is cut in 2 cp chunks, of which a rank holds one from the front and its
        mirror image from the back, so that causal attention is the same work on all.
    cp_comm_type : str
        One of ``CP_COMM_TYPES``.
    ep : int
        Expert-parallel degree: each rank of a group holds 1/ep of the experts.
    expert_tp : int or None
        Tensor-parallel degree of the experts; None for that of the rest of the model.
    tp_overlap : bool
        Tensor-parallel exchanges are cut in chunks that run beside the GEMMs (user buffers).
    replicas : int
        Data-parallel ranks, over which batch norms may be synchronised.

    Examples
    --------
    >>> Splits(cp=4).chunks
    8
    """

    cp: int = 1
    cp_comm_type: str = "p2p"
    ep: int = 1
    expert_tp: int | None = None
    tp_overlap: bool = False
    replicas: int = 1

    @property
    def chunks(self) -> int:
        """Parts that a sequence must be divisible into."""
        return 2 * self.cp if self.cp > 1 else 1


WHOLE = Splits()
"""Nothing split."""
