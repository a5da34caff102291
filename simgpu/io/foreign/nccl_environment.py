"""NCCL's environment variables, as other programs' files set them."""

from __future__ import annotations

import re
from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

IDLE_VARIABLES: Final = (
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUBLAS_WORKSPACE_CONFIG", "PYTORCH_CUDA_ALLOC_CONF", "PYTHONWARNINGS", "NVTE_*",
    "NCCL_DEBUG*", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_SOCKET_IFNAME", "NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_TIMEOUT", "TORCH_NCCL_*", "NON_DETERMINSTIC_RESULTS", "N_REPEATS",
    "NVSHMEM_*", "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", "SLURM_*", "OMP_NUM_THREADS", "*PATH*", "MASTER_*",
    "TOKENIZERS_PARALLELISM", "UB_*", "HF_*", "WANDB_*", "LD_*", "GLOO_*",
    "NCCL_IB_GID_INDEX", "NCCL_IB_RETRY_CNT", "NCCL_IB_T*", "NCCL_IB_FIFO_TC", "NCCL_IB_SL",
    "NCCL_IB_PKEY", "NCCL_IB_ADDR_*", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_RETURN_ASYNC_EVENTS", "NCCL_IB_MLX5_DEVX",
)  # fmt: skip
"""Variables without effect on a step here. ``NCCL_NVLS_ENABLE`` is used where it is 0."""
_SWITCHES: Final = {"NCCL_P2P_DISABLE": "p2p_disable", "NCCL_IB_DISABLE": "ib_disable"}
_WORDS: Final = {"NCCL_ALGO": "algo", "NCCL_PROTO": "proto", "NCCL_NET_GDR_LEVEL": "net_gdr_level"}


def nccl_settings(ledger: Ledger, block: str) -> dict[str, Any]:
    """Return the scenario's ``network`` fields.

    Parameters
    ----------
    ledger : Ledger
    block : str
        Key of the mapping that holds the variables.

    Returns
    -------
    dict

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x", data={"env": {"NCCL_ALGO": "Ring", "NCCL_IB_DISABLE": 1}}))
    >>> nccl_settings(ledger, "env")
    {'network.nccl.ib_disable': True, 'network.nccl.algo': 'Ring'}
    """
    found: dict[str, Any] = {}
    for variable, field in _SWITCHES.items():
        if ledger.text(f"{block}.{variable}") not in (None, "0"):
            found[f"network.nccl.{field}"] = True
    if str(ledger.raw(f"{block}.NCCL_NET")).lower() == "socket":  # TCP, as without InfiniBand
        ledger.get(f"{block}.NCCL_NET")
        found["network.nccl.ib_disable"] = True
    for variable, field in _WORDS.items():
        word = ledger.text(f"{block}.{variable}")
        if word is not None and re.fullmatch(r"\w+", word):
            found[f"network.nccl.{field}"] = word
        elif word is not None:
            ledger.note(f"{variable}={word} is not simulated: one name is, and NCCL's own choice")
    if ledger.text(f"{block}.NCCL_NVLS_ENABLE") == "0":
        ledger.note("NCCL_NVLS_ENABLE=0 is not simulated: set network.nccl.algo to Ring or Tree to keep NVLS out")
    return found
