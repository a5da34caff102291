"""Megatron's functional tests: ``MODEL_ARGS`` and ``ENV_VARS`` in YAML (NVIDIA/Megatron-LM tests/functional_tests)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.document import mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.megatron_arguments import MegatronArguments
from simgpu.io.foreign.megatron_idle import IDLE
from simgpu.io.foreign.megatron_run import megatron_settings
from simgpu.io.foreign.nccl_environment import IDLE_VARIABLES, nccl_settings
from simgpu.io.foreign.reading import Reading

KIND: Final = "megatron-yaml"
_BLOCK: Final = "MODEL_ARGS"
_IDLE: Final = ("TEST_TYPE", "LAUNCHER", "METRICS", "MODE", "BEFORE_SCRIPT", "AFTER_SCRIPT", "EXTRA_ARGS")


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a text is the configuration of such a test.

    Examples
    --------
    >>> recognise(Path("model_config.yaml"), "MODEL_ARGS:\n  --num-layers: 12")
    True
    """
    if _BLOCK not in text:
        return False
    data = mapping_of(text)
    return data is not None and isinstance(data.get(_BLOCK), Mapping)


def read_megatron_yaml(path: Path) -> Reading:
    r"""Read the configuration of a functional test.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        When Megatron refuses the arguments, or they ask for what is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model_config.yaml"
    ...     _ = path.write_text("MODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 64\n  --num-attention-heads: 8\n"
    ...                         "  --pipeline-model-parallel-size: 4\n  --num-layers-per-virtual-pipeline-stage: 1\n")
    ...     reading = read_megatron_yaml(path)
    >>> reading.settings["parallel.virtual_stages"]
    3
    """
    ledger = Ledger(read_document(path))
    data: Any = ledger.data[_BLOCK]
    keys = {name.lstrip("-").replace("_", "-"): f"{_BLOCK}.{name}" for name in data}
    arguments = MegatronArguments(ledger, keys)
    hints = " ".join(str(data.get(f"--{name}", "")) for name in ("data-path", "tokenizer-type"))
    settings = megatron_settings(arguments, bert=bool(re.search("bert", hints, re.IGNORECASE)))
    settings |= nccl_settings(ledger, "ENV_VARS")
    ledger.idle(*(f"{_BLOCK}.--{name}" for name in IDLE), *(f"ENV_VARS.{name}" for name in IDLE_VARIABLES), *_IDLE)
    return ledger.reading(KIND, settings)
