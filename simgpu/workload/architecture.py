"""An Architecture: what every model can say about itself, whatever its layers are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from simgpu.workload.training import Training


class Architecture(ABC):
    """Base of the model descriptions. A family is one description, and one function from it to units.

    Attributes
    ----------
    name, family : str
        What people call it, and whose layer layout it has.
    layers : int
        What a pipeline divides: blocks, whatever is in them.
    parameters : int
        Trained parameters, tied ones counted once and without vocabulary padding.
    tensor_ways : int
        Tensor-parallel degrees are divisors of this; 1 where nothing is split.
    fixed_sequence : int or None, tokens
        Tokens of a sample where the model decides (images); None where the training does.
    dimensions : mapping of str to int
        Every size of the description.
    """

    __slots__ = ()

    name: str
    family: str

    @property
    @abstractmethod
    def layers(self) -> int:
        """Blocks of the model."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """Trained parameters."""

    @property
    @abstractmethod
    def tensor_ways(self) -> int:
        """A multiple of every possible tensor-parallel degree."""

    @property
    def fixed_sequence(self) -> int | None:
        """Tokens of a sample, where the model decides."""
        return None

    @property
    @abstractmethod
    def dimensions(self) -> Mapping[str, int]:
        """Every size of the description."""

    @abstractmethod
    def model_flops(self, training: Training) -> int:
        """Return the FLOPs of one micro-batch's forward and backward that the model itself needs, for MFU."""

    @abstractmethod
    def hardware_flops(self, training: Training) -> int:
        """Return `model_flops` and those of recomputation, for HFU."""

    @abstractmethod
    def activation_bound_bytes(self, training: Training) -> int:
        """Return more bytes than what all layers keep of one micro-batch, to tell sizes that cannot be meant."""
