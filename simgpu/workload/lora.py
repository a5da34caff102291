"""Low-rank adapters (LoRA, arXiv 2106.09685) beside frozen linear layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simgpu.dtypes import DType
from simgpu.workload.op import Gemm, MemoryBound
from simgpu.workload.unit import Parameter, PassItem, Unit

if TYPE_CHECKING:
    from simgpu.workload.model import Model

ALL_LINEAR: Final = "all-linear"
PROJECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "q_proj": ("attention.qkv",),
    "k_proj": ("attention.qkv",),
    "v_proj": ("attention.qkv",),
    "o_proj": ("attention.out",),
    "gate_proj": ("mlp.gate_up",),
    "up_proj": ("mlp.gate_up", "mlp.up"),
    "down_proj": ("mlp.down",),
}
"""Names that huggingface/peft knows a decoder's linear layers by, and the products here that contain them."""

SAVED: Final[Mapping[str, str]] = {"embed_tokens": "embedding", "lm_head": "head"}
"""Modules that can be trained whole beside adapters, by PEFT's names, and the layers here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Adapters of one rank on some projections, and modules that are trained whole; everything else is frozen."""

    rank: int
    targets: tuple[str, ...] = (ALL_LINEAR,)
    modules_to_save: tuple[str, ...] = ()

    @property
    def saved_layers(self) -> frozenset[str]:
        """The layers that are trained whole.

        Examples
        --------
        >>> sorted(Lora(rank=8, modules_to_save=("lm_head",)).saved_layers)
        ['head']
        """
        return frozenset(SAVED[name] for name in self.modules_to_save)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One adapter: x A B, scaled and added to the projection's output.

    Parameters
    ----------
    product : str
        The frozen product beside which it runs.
    name : str
    tokens, inputs, outputs, rank : int
    dtype : DType
    """

    product: str
    name: str
    tokens: int
    inputs: int
    outputs: int
    rank: int
    dtype: DType

    @property
    def parameters(self) -> tuple[Parameter, Parameter]:
        """The matrices A and B."""
        sizes = (("lora_A", self.inputs * self.rank), ("lora_B", self.rank * self.outputs))
        return tuple(  # type: ignore[return-value]
            Parameter(name=f"{self.product}.{self.name}.{which}", elements=size, total=size) for which, size in sizes
        )

    @property
    def saved_bytes(self) -> int:
        """What it keeps besides the layer's input: x A."""
        return self.tokens * self.rank * self.dtype.bytes

    def forward(self) -> tuple[PassItem, ...]:
        """Return two products, the scaling (2E per output) and the sum (3E)."""
        name, scaled = f"{self.product}.{self.name}", self.tokens * self.outputs * self.dtype.bytes
        return (
            Gemm(name=f"{name}.lora_A", m=self.tokens, n=self.rank, k=self.inputs, dtype=self.dtype),
            Gemm(name=f"{name}.lora_B", m=self.tokens, n=self.outputs, k=self.rank, dtype=self.dtype),
            MemoryBound(name=f"{name}.lora_sum", bytes=5 * scaled, kernels=2),
        )

    def backward(self) -> tuple[PassItem, ...]:
        """Return the scaling, gradients of B, x A, A and x, and the sum of x's gradient with the layer's own."""
        name, element = f"{self.product}.{self.name}", self.dtype.bytes
        t, r, i, o, d = self.tokens, self.rank, self.inputs, self.outputs, self.dtype
        return (
            MemoryBound(name=f"{name}.lora_scale.backward", bytes=2 * t * o * element),
            Gemm(name=f"{name}.lora_B.wgrad", m=o, n=r, k=t, dtype=d, layout="nt"),
            Gemm(name=f"{name}.lora_B.dgrad", m=t, n=r, k=o, dtype=d, layout="nn"),
            Gemm(name=f"{name}.lora_A.wgrad", m=r, n=i, k=t, dtype=d, layout="nt"),
            Gemm(name=f"{name}.lora_A.dgrad", m=t, n=i, k=r, dtype=d, layout="nn"),
            MemoryBound(name=f"{name}.lora_gradient_sum", bytes=3 * t * i * element),
        )


def adapters(unit: Unit, model: Model, lora: Lora) -> tuple[Adapter, ...]:
    """Return the adapters of a unit.

    Parameters
    ----------
    unit : Unit
    model : Model
        Its head counts tell how a fused product is shared out.
    lora : Lora

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> from simgpu.workload.families import model_units
    >>> model = bundled_model("llama-3-8b")
    >>> parts = model_units(model, Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> found = adapters(parts.layers[0].units[0], model, Lora(rank=16, targets=("q_proj", "v_proj")))
    >>> [(a.name, a.inputs, a.outputs) for a in found]
    [('q_proj', 4096, 4096), ('v_proj', 4096, 1024)]
    """
    products = {item.name: item for item in unit.forward if isinstance(item, Gemm)}
    found = []
    for target in chosen(lora.targets):
        for product in PROJECTIONS[target]:
            gemm = products.get(product)
            if gemm is not None:
                found.append(
                    Adapter(
                        product=product,
                        name=target,
                        tokens=gemm.m,
                        inputs=gemm.k,
                        outputs=_outputs(target, gemm.n, product, model),
                        rank=lora.rank,
                        dtype=DType.BF16 if gemm.dtype is DType.FP8 else gemm.dtype,
                    )
                )
    return tuple(found)


def chosen(targets: Sequence[str]) -> tuple[str, ...]:
    """Return the projections that targets name, in the order of a block.

    Examples
    --------
    >>> chosen(["v_proj", "q_proj"]), len(chosen(["all-linear"]))
    (('q_proj', 'v_proj'), 7)
    """
    return tuple(name for name in PROJECTIONS if ALL_LINEAR in targets or name in targets)


def _outputs(target: str, width: int, product: str, model: Model) -> int:
    if product == "mlp.gate_up":
        return width // 2
    if product != "attention.qkv":
        return width
    # tp divides queries evenly; few key/value heads are repeated on every rank
    queries = _query_heads(model) * model.head_dim
    ways = next(t for t in range(1, model.heads + 1) if _width(model, t) == width)
    key = max(model.kv_heads // ways, 1) * model.head_dim
    return queries // ways if target == "q_proj" else key


def _width(model: Model, tp: int) -> int:
    return (_query_heads(model) // tp + 2 * max(model.kv_heads // tp, 1)) * model.head_dim


def _query_heads(model: Model) -> int:
    return model.heads * (2 if model.output_gate else 1)  # the query projection makes the gate too
