"""Names, types and sizes as NVIDIA/nccl-tests has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simgpu.dtypes import DType
from simgpu.errors import ProgramError

KINDS: Final[Mapping[str, str]] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "all_to_all": "all_to_all",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
    "send_recv": "send_recv",
}
"""Names a collective may be asked for by, and what SimGPU calls it; nccl-tests' own are among them."""

_NCCL_TESTS_TYPES: Final = {"float": "fp32", "half": "fp16", "bfloat16": "bf16"}
_SHARED_OUT: Final = ("all_gather", "reduce_scatter", "all_to_all")
_ALIGNED_BYTES: Final = 16  # nccl-tests rounds each rank's share down to this


def kind_of(name: str) -> str:
    """Look SimGPU's name of a collective up.

    Parameters
    ----------
    name : str
        A key of `KINDS`, in any case, with ``-`` or ``_``, with or without nccl-tests' ``_perf``.

    Returns
    -------
    str

    Raises
    ------
    ProgramError
        For a name that is none.

    Examples
    --------
    >>> kind_of("all-reduce"), kind_of("alltoall_perf")
    ('all_reduce', 'all_to_all')
    """
    plain = name.strip().lower().replace("-", "_").removesuffix("_perf")
    if plain not in KINDS:
        raise ProgramError(f"{name!r} is no collective that SimGPU prices; allowed: {', '.join(KINDS)}")
    return KINDS[plain]


def dtype_of(name: str) -> DType:
    """Look a type up by SimGPU's name or nccl-tests'.

    Parameters
    ----------
    name : str
        ``fp32``, ``bf16``, ...; ``float``, ``half``, ``bfloat16``.

    Returns
    -------
    DType

    Raises
    ------
    ProgramError
        For a name that is none.

    Examples
    --------
    >>> dtype_of("half").value
    'fp16'
    """
    plain = name.strip().lower()
    plain = _NCCL_TESTS_TYPES.get(plain, plain)
    if plain not in tuple(DType):
        raise ProgramError(f"{name!r} is no type; allowed: {', '.join((*DType, *_NCCL_TESTS_TYPES))}")
    return DType(plain)


def payload_bytes(kind: str, n: int, asked: int, dtype: DType) -> tuple[int, int]:
    """Round a size as nccl-tests does.

    Parameters
    ----------
    kind : str
    n : int
        Ranks.
    asked : int, bytes
    dtype : DType

    Returns
    -------
    int, bytes
        The payload.
    int, elements
        nccl-tests' count.

    Notes
    -----
    ``*GetCollByteCount`` of NVIDIA/nccl-tests src: where ranks hold shares, a share is a multiple of 16 bytes.

    Examples
    --------
    >>> payload_bytes("all_reduce", 3, 1003, DType.FP32), payload_bytes("all_gather", 3, 1003, DType.FP32)
    ((1000, 250), (960, 80))
    """
    if kind not in _SHARED_OUT:
        count = asked // dtype.bytes
        return count * dtype.bytes, count
    share_bytes = asked // dtype.bytes // n * dtype.bytes // _ALIGNED_BYTES * _ALIGNED_BYTES
    return share_bytes * n, share_bytes // dtype.bytes
