"""Megatron's functional tests and recipes: arguments and ``ENV_VARS`` in YAML.

``MODEL_ARGS`` of NVIDIA/Megatron-LM tests/functional_tests and examples/moe-modelzoo has the command line's names,
``ARGS`` of examples/moe_recipes has them with underscores.
"""

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
from simgpu.io.foreign.nccl_environment import idle_variables, nccl_settings, note_attention
from simgpu.io.foreign.reading import Reading

KIND: Final = "megatron-yaml"
_BLOCKS: Final = ("MODEL_ARGS", "ARGS")
_IDLE: Final = (
    "DEPENDENCIES",
    "MODEL",
    "MODEL_SPEC",
    "TEST_TYPE",
    "LAUNCHER",
    "METRICS",
    "MODE",
    "BEFORE_SCRIPT",
    "AFTER_SCRIPT",
    "EXTRA_ARGS",
)


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a text is such a configuration.

    Examples
    --------
    >>> recognise(Path("model_config.yaml"), "MODEL_ARGS:\n  --num-layers: 12")
    True
    """
    if not any(name in text for name in _BLOCKS):
        return False
    return _block(mapping_of(text) or {}) is not None


def _block(data: Mapping[str, Any]) -> str | None:
    return next((name for name in _BLOCKS if isinstance(data.get(name), Mapping)), None)


def read_megatron_yaml(path: Path) -> Reading:
    r"""Read the arguments.

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
    block = _block(ledger.data)
    data: Any = ledger.data[block or _BLOCKS[0]]
    keys = {name.lstrip("-").replace("_", "-"): f"{block}.{name}" for name in data}
    arguments = MegatronArguments(ledger, keys)
    hints = " ".join(arguments.written(name) for name in ("data-path", "tokenizer-type"))
    settings = megatron_settings(arguments, bert=bool(re.search("bert", hints, re.IGNORECASE)))
    settings |= nccl_settings(ledger, "ENV_VARS")
    note_attention(ledger, "ENV_VARS")
    ledger.idle(*(f"{block}.{form}" for name in IDLE for form in (f"--{name}", name.replace("-", "_"))))
    variables = ledger.data.get("ENV_VARS")
    names = [str(name) for name in variables] if isinstance(variables, Mapping) else []
    ledger.idle(*(f"ENV_VARS.{name}" for name in idle_variables(names)), *_IDLE)
    return ledger.reading(KIND, settings)
