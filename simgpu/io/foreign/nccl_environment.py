"""NCCL's environment variables, as other programs' files set them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

_LIBRARIES: Final = ("NCCL_", "TORCH_NCCL_", "NVTE_", "NVSHMEM_", "CUDA_", "CUBLAS_", "UB_")
"""How the names of variables begin that a library reads; all others are the script's own, or of no step."""
_IDLE: Final = (
    # NVIDIA/nccl, the user guide's chapter on environment variables
    "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_TIMESTAMP_FORMAT", "NCCL_DEBUG_TIMESTAMP_LEVELS",
    "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "NCCL_COMM_ID", "NCCL_CONF_FILE", "NCCL_HOSTID",
    "NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_TIMEOUT", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_CUMEM_ENABLE",
    "NCCL_NVLS_ENABLE", "NCCL_SET_STACK_SIZE", "NCCL_SET_THREAD_NAME", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_RAS_ENABLE",
    "NCCL_IB_GID_INDEX", "NCCL_IB_RETRY_CNT", "NCCL_IB_TIMEOUT", "NCCL_IB_TC", "NCCL_IB_FIFO_TC", "NCCL_IB_SL",
    "NCCL_IB_PKEY", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_RETURN_ASYNC_EVENTS", "NCCL_IB_MLX5_DEVX", "NCCL_OOB_NET_ENABLE", "NCCL_OOB_NET_IFNAME",
    # pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp
    *(f"TORCH_NCCL_{name}" for name in (
        "ASYNC_ERROR_HANDLING", "AVOID_RECORD_STREAMS", "BCAST_UNIQUEID", "BLOCKING_WAIT", "COORD_CHECK_MILSEC",
        "CUDA_EVENT_CACHE", "DEBUG_INFO_PIPE_FILE", "DEBUG_INFO_TEMP_FILE", "DESYNC_DEBUG", "DUMP_ON_TIMEOUT",
        "ENABLE_MONITORING", "ENABLE_TIMING", "HEARTBEAT_TIMEOUT_SEC", "HIGH_PRIORITY",
        "LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", "NAN_CHECK", "PROPAGATE_ERROR", "RANKS_PER_ROOT", "RETHROW_CUDA_ERRORS",
        "SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "TRACE_BUFFER_SIZE", "TRACE_CPP_STACK", "USE_COMM_NONBLOCKING",
        "USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "WAIT_TIMEOUT_DUMP_MILSEC",
    )),
    # NVIDIA/TransformerEngine docs/envvars, pytorch/attention and pytorch/module
    *(f"NVTE_{name}" for name in (
        "ALLOW_NONDETERMINISTIC_ALGO", "APPLY_QK_LAYER_SCALING", "ASYNC_AMAX_REDUCTION", "BATCH_MHA_P2P_COMM",
        "BIAS_DROPOUT_FUSION", "BIAS_GELU_NVFUSION", "BWD_LAYERNORM_SM_MARGIN", "CPU_OFFLOAD_V1", "DEBUG",
        "DEBUG_LEVEL",
        "DPA_FORCE_WORKSPACE_OPT", "FLASH_ATTN", "FP8_DPA_BWD", "FUSED_ATTN", "FUSED_ATTN_BACKEND",
        "FUSED_ATTN_FORCE_WORKSPACE_OPT", "FUSED_ATTN_USE_FAv2_BWD", "FWD_LAYERNORM_SM_MARGIN", "NORM_BWD_USE_CUDNN",
        "NORM_FWD_USE_CUDNN", "TORCH_COMPILE", "UNFUSED_ATTN",
    )),
    "NVSHMEM_IB_ENABLE_IBGDA", "NVSHMEM_DISABLE_CUDA_VMM", "NVSHMEM_IB_GID_INDEX", "NVSHMEM_SYMMETRIC_SIZE",
    "NVSHMEM_BOOTSTRAP", "NVSHMEM_DEBUG", "NVSHMEM_HCA_LIST", "NVSHMEM_QP_DEPTH",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH", "CUDA_CACHE_PATH",
    "CUDA_MODULE_LOADING", "CUBLAS_WORKSPACE_CONFIG", "UB_SKIPMC", "UB_MPI_BOOTSTRAP",
)  # fmt: skip
_ATTENTION: Final = {"NVTE_FUSED_ATTN": "cuDNN's", "NVTE_FLASH_ATTN": "FlashAttention's"}
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


def note_attention(ledger: Ledger, block: str) -> None:
    """Note kernels of attention that Transformer Engine is told not to take.

    Parameters
    ----------
    ledger : Ledger
    block : str
    """
    for variable, kernel in _ATTENTION.items():
        if ledger.text(f"{block}.{variable}") == "0":
            ledger.note(
                f"{variable}=0 is not simulated: whether attention is {kernel} is up to software.attention_kernel"
            )


def idle_variables(names: Iterable[str]) -> tuple[str, ...]:
    """Return environment variables without effect on a step here.

    Parameters
    ----------
    names : iterable of str
        Those that a file sets. What no library reads is the file's own; ``NCCL_NVLS_ENABLE`` is used where it is 0.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> idle_variables(["DATA_PATH", "NCCL_DEBUG", "NCCL_DEBUGG", "NVTE_FLASH_ATTN"])
    ('DATA_PATH', 'NCCL_DEBUG', 'NVTE_FLASH_ATTN')
    """
    return tuple(name for name in names if name in _IDLE or not name.startswith(_LIBRARIES))
