"""The kinds of configuration files that are read, and how each is recognised: one line per kind.

Add one: a module with ``recognise(path, text) -> bool`` and ``read_<kind>(path) -> Reading``, and a line in ``KINDS``.
The first that recognises a file reads it, so kinds with telling keys stand before those with common ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign import (
    accelerate,
    axolotl,
    deepspeed,
    fsdp_options,
    gptneox,
    hf_config,
    host_list,
    launch_line,
    litgpt,
    litgpt_model,
    llamafactory,
    llm_foundry,
    megatron_args,
    megatron_runs,
    megatron_swift,
    megatron_yaml,
    megatron_yaml_cfg,
    ms_swift,
    nanotron,
    nemo,
    olmo,
    oumi,
    torchtitan,
    torchtune,
    trainer,
)
from simgpu.io.foreign.document import mapping_of, parse_document
from simgpu.io.foreign.machine_files import check_elsewhere, read_network_log
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.shell_quotes import check_quotes
from simgpu.io.foreign.unknown_kind import no_launch_line, unknown_kind
from simgpu.io.text_file import read_text


class Kind(NamedTuple):
    """A kind of file.

    Parameters
    ----------
    name : str
    label : str
        What people call it.
    recognise : callable
        ``(path, text) -> bool``.
    read : callable
        ``(path) -> Reading``.
    """

    name: str
    label: str
    recognise: Callable[[Path, str], bool]
    read: Callable[[Path], Reading]


KINDS: Final = (
    Kind(
        launch_line.KIND, "launch lines and shell scripts", launch_line.recognise_program, launch_line.read_launch_line
    ),
    Kind(host_list.KIND, "host files", host_list.recognise, host_list.read_host_list),
    Kind(
        megatron_yaml.KIND, "Megatron-LM's arguments as YAML", megatron_yaml.recognise, megatron_yaml.read_megatron_yaml
    ),
    Kind(
        megatron_yaml_cfg.KIND,
        "files of Megatron-LM's --yaml-cfg",
        megatron_yaml_cfg.recognise,
        megatron_yaml_cfg.read_megatron_yaml_cfg,
    ),
    Kind(nemo.KIND, "NeMo's YAML", nemo.recognise, nemo.read_nemo),
    Kind(gptneox.KIND, "GPT-NeoX's YAML", gptneox.recognise, gptneox.read_gptneox),
    Kind(megatron_runs.KIND, "lists of Megatron-LM's runs", megatron_runs.recognise, megatron_runs.read_megatron_runs),
    Kind(torchtitan.KIND, "torchtitan's TOML", torchtitan.recognise, torchtitan.read_torchtitan),
    Kind(nanotron.PICOTRON, "picotron's JSON", nanotron.recognise_picotron, nanotron.read_picotron),
    Kind(nanotron.NANOTRON, "nanotron's YAML", nanotron.recognise, nanotron.read_nanotron),
    Kind(litgpt.KIND, "LitGPT's YAML", litgpt.recognise, litgpt.read_litgpt),
    Kind(litgpt_model.LIST, "LitGPT's list of models", litgpt_model.recognise_list, litgpt_model.read_litgpt_models),
    Kind(litgpt_model.KIND, "LitGPT's model_config.yaml", litgpt_model.recognise, litgpt_model.read_litgpt_model),
    Kind(torchtune.KIND, "torchtune's YAML", torchtune.recognise, torchtune.read_torchtune),
    Kind(olmo.KIND, "OLMo's YAML", olmo.recognise, olmo.read_olmo),
    Kind(llm_foundry.KIND, "llm-foundry's YAML", llm_foundry.recognise, llm_foundry.read_llm_foundry),
    Kind(oumi.KIND, "Oumi's YAML", oumi.recognise, oumi.read_oumi),
    Kind(axolotl.KIND, "Axolotl's YAML", axolotl.recognise, axolotl.read_axolotl),
    Kind(megatron_swift.KIND, "ms-swift's Megatron YAML", megatron_swift.recognise, megatron_swift.read_megatron_swift),
    Kind(ms_swift.KIND, "ms-swift's YAML", ms_swift.recognise, ms_swift.read_ms_swift),
    Kind(llamafactory.KIND, "LLaMA-Factory's YAML", llamafactory.recognise, llamafactory.read_llamafactory),
    Kind(accelerate.KIND, "Accelerate's YAML", accelerate.recognise, accelerate.read_accelerate),
    Kind(deepspeed.KIND, "DeepSpeed's JSON", deepspeed.recognise, deepspeed.read_deepspeed),
    Kind(fsdp_options.KIND, "FSDP options", fsdp_options.recognise, fsdp_options.read_fsdp_file),
    Kind(hf_config.KIND, "config.json of Transformers", hf_config.recognise, hf_config.read_hf_config),
    Kind(trainer.KIND, "arguments of Transformers' Trainer and TRL", trainer.recognise, trainer.read_trainer),
    Kind(megatron_args.KIND, "Megatron-LM's arguments", megatron_args.recognise, megatron_args.read_megatron_args),
    Kind(launch_line.KIND, "launch lines and shell scripts", launch_line.recognise, launch_line.read_launch_line),
)
LABELS: Final = (*(kind.label for kind in KINDS), "logs of NCCL and nccl-tests")
"""What people call the files that are read."""
_SHELL: Final = (".sh", ".bash", ".sbatch", ".slurm", ".pbs", ".lsf", ".job")
TAKE_OVERRIDES: Final[Mapping[str, Callable[..., Reading]]] = {
    launch_line.KIND: launch_line.read_launch_line,
    accelerate.KIND: accelerate.read_accelerate,
    trainer.KIND: trainer.read_trainer,
    litgpt.KIND: litgpt.read_litgpt,
    llamafactory.KIND: llamafactory.read_llamafactory,
    axolotl.KIND: axolotl.read_axolotl,
    ms_swift.KIND: ms_swift.read_ms_swift,
    megatron_swift.KIND: megatron_swift.read_megatron_swift,
    oumi.KIND: oumi.read_oumi,
    torchtune.KIND: torchtune.read_torchtune,
    olmo.KIND: olmo.read_olmo,
    llm_foundry.KIND: llm_foundry.read_llm_foundry,
}
"""Readers, by kind, that take what stands above the values of a file: ``read(path, over=overrides)``."""


def kind_of(path: Path) -> str | None:
    """Return the kind of a file by its name; None where it is of none.

    Parameters
    ----------
    path : Path

    Returns
    -------
    str or None

    Raises
    ------
    ScenarioError
        When it cannot be read.
    """
    text = read_text(path, str(path))
    return next((kind.name for kind in KINDS if kind.recognise(path, text)), None)


def read_foreign(path: Path) -> Reading:
    """Read a configuration file of whichever kind it is.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        When the file cannot be read, is of no known kind, or holds what cannot be simulated.

    Examples
    --------
    >>> read_foreign(Path("absent.json"))
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: absent.json: cannot be read: No such file or directory
    """
    measured = read_network_log(path)
    if measured is not None:
        return measured
    try:
        text = read_text(path, str(path))
    except ScenarioError:
        check_elsewhere(path)  # which may be compressed, or large
        raise
    for kind in KINDS:
        if kind.recognise(path, text):
            return kind.read(path)
    check_elsewhere(path)
    if not text.strip():
        raise ScenarioError([Issue(field="", problem="is empty", file=path.name)])
    if text.lstrip()[:1] == "{" or path.suffix in (".json", ".yaml", ".yml"):
        raise unknown_kind(path.name, parse_document(text, path.name).data, LABELS)  # or what is wrong with the text
    check_quotes(text, path.name)
    if text.startswith("#!") or path.suffix in _SHELL:
        raise no_launch_line(path.name)
    raise unknown_kind(path.name, mapping_of(text), LABELS)
