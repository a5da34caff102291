"""What an algorithm is asked to run besides the payload: protocol, settings, and where its time may come from."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.costs.collectives.tuning import Candidate
from simgpu.errors import TopologyError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to run a collective.

    Parameters
    ----------
    chosen : Candidate or None
        Protocol with its latency and bandwidth in NCCL's tuning model; None for what NCCL does not tune.
    nccl : NcclSettings
    measured : bool
        Whether measured rows may give the time; else it is constructed.
    """

    chosen: Candidate | None = None
    nccl: NcclSettings = CURRENT
    measured: bool = True

    @property
    def protocol(self) -> str:
        """Protocol, empty where there is no choice.

        Examples
        --------
        >>> Request().protocol
        ''
        """
        return "" if self.chosen is None else self.chosen.protocol

    def candidate(self) -> Candidate:
        """Return the tuned candidate.

        Raises
        ------
        TopologyError
            When there is none, because the group cannot run the algorithm.
        """
        if self.chosen is None:
            raise TopologyError("this group cannot run the algorithm")
        return self.chosen
