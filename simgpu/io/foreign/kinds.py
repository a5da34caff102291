"""The kinds of configuration files that are read, and how each is recognised: one line per kind.

Add one: a module with ``recognise(path, text) -> bool`` and ``read_<kind>(path) -> Reading``, and a line in ``KINDS``.
The first that recognises a file reads it, so kinds with telling keys stand before those with common ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
from simgpu.io.foreign.unknown_kind import unknown_kind
from simgpu.io.text_file import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of file.

    Parameters
    ----------
    name : str
    recognise : callable
        ``(path, text) -> bool``.
    read : callable
        ``(path) -> Reading``.
    """

    name: str
    recognise: Callable[[Path, str], bool]
    read: Callable[[Path], Reading]


KINDS: Final = (
    Kind(name=launch_line.KIND, recognise=launch_line.recognise_program, read=launch_line.read_launch_line),
    Kind(name=host_list.KIND, recognise=host_list.recognise, read=host_list.read_host_list),
    Kind(name=megatron_yaml.KIND, recognise=megatron_yaml.recognise, read=megatron_yaml.read_megatron_yaml),
    Kind(
        name=megatron_yaml_cfg.KIND,
        recognise=megatron_yaml_cfg.recognise,
        read=megatron_yaml_cfg.read_megatron_yaml_cfg,
    ),
    Kind(name=nemo.KIND, recognise=nemo.recognise, read=nemo.read_nemo),
    Kind(name=gptneox.KIND, recognise=gptneox.recognise, read=gptneox.read_gptneox),
    Kind(name=megatron_runs.KIND, recognise=megatron_runs.recognise, read=megatron_runs.read_megatron_runs),
    Kind(name=torchtitan.KIND, recognise=torchtitan.recognise, read=torchtitan.read_torchtitan),
    Kind(name=nanotron.PICOTRON, recognise=nanotron.recognise_picotron, read=nanotron.read_picotron),
    Kind(name=nanotron.NANOTRON, recognise=nanotron.recognise, read=nanotron.read_nanotron),
    Kind(name=litgpt.KIND, recognise=litgpt.recognise, read=litgpt.read_litgpt),
    Kind(name=litgpt_model.LIST, recognise=litgpt_model.recognise_list, read=litgpt_model.read_litgpt_models),
    Kind(name=litgpt_model.KIND, recognise=litgpt_model.recognise, read=litgpt_model.read_litgpt_model),
    Kind(name=torchtune.KIND, recognise=torchtune.recognise, read=torchtune.read_torchtune),
    Kind(name=olmo.KIND, recognise=olmo.recognise, read=olmo.read_olmo),
    Kind(name=llm_foundry.KIND, recognise=llm_foundry.recognise, read=llm_foundry.read_llm_foundry),
    Kind(name=oumi.KIND, recognise=oumi.recognise, read=oumi.read_oumi),
    Kind(name=axolotl.KIND, recognise=axolotl.recognise, read=axolotl.read_axolotl),
    Kind(name=ms_swift.KIND, recognise=ms_swift.recognise, read=ms_swift.read_ms_swift),
    Kind(name=llamafactory.KIND, recognise=llamafactory.recognise, read=llamafactory.read_llamafactory),
    Kind(name=accelerate.KIND, recognise=accelerate.recognise, read=accelerate.read_accelerate),
    Kind(name=deepspeed.KIND, recognise=deepspeed.recognise, read=deepspeed.read_deepspeed),
    Kind(name=fsdp_options.KIND, recognise=fsdp_options.recognise, read=fsdp_options.read_fsdp_file),
    Kind(name=hf_config.KIND, recognise=hf_config.recognise, read=hf_config.read_hf_config),
    Kind(name=trainer.KIND, recognise=trainer.recognise, read=trainer.read_trainer),
    Kind(name=megatron_args.KIND, recognise=megatron_args.recognise, read=megatron_args.read_megatron_args),
    Kind(name=launch_line.KIND, recognise=launch_line.recognise, read=launch_line.read_launch_line),
)


TAKE_OVERRIDES: Final[Mapping[str, Callable[..., Reading]]] = {
    launch_line.KIND: launch_line.read_launch_line,
    accelerate.KIND: accelerate.read_accelerate,
    trainer.KIND: trainer.read_trainer,
    litgpt.KIND: litgpt.read_litgpt,
    llamafactory.KIND: llamafactory.read_llamafactory,
    axolotl.KIND: axolotl.read_axolotl,
    ms_swift.KIND: ms_swift.read_ms_swift,
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
        raise unknown_kind(path.name, parse_document(text, path.name).data)  # or what is wrong with the text
    check_quotes(text, path.name)
    raise unknown_kind(path.name, mapping_of(text))
