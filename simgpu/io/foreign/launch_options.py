"""Options of launchers, which stand in front of the script that they start."""

from __future__ import annotations

from typing import Any, Final

_FLAGS: Final = (
    "multi_gpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "cpu", "debug", "standalone", "no_python",
    "no_local_rank", "use_env", "same_network", "tpu", "mps", "quiet", "module", "m", "no_ssh", "autotuning",
    "use_parallelism_config", "enable_cpu_affinity", "bind_cores_to_rank", "force_multi", "save_pid", "use_cpu",
)  # fmt: skip


def module_launcher(module: str, rest: list[str]) -> tuple[str, list[str]]:
    """Return the launcher behind ``python -m``, and its words; a module that is none is a script.

    Examples
    --------
    >>> module_launcher("torch.distributed.run", ["t.py"]), module_launcher("my.train", [])
    (('torchrun', ['t.py']), ('python', ['my.train']))
    """
    if module in ("torch.distributed.run", "torch.distributed.launch"):
        return "torchrun", rest
    if module.split(".")[0] == "deepspeed":
        return "deepspeed", rest
    if module.split(".")[0] == "accelerate":
        return "accelerate", ["launch", *(rest[1:] if rest[:1] == ["launch"] else rest)]
    if module == "llamafactory.cli":
        return "llamafactory-cli", rest
    return "python", [module, *rest]


def options_before_script(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Read options up to the script.

    Examples
    --------
    >>> options_before_script(["--nnodes", "2", "--standalone", "t.py", "--bf16"])
    ({'nnodes': '2', 'standalone': True}, ['t.py', '--bf16'])
    """
    options: dict[str, Any] = {}
    position = 0
    while position < len(words) and words[position].startswith("-"):
        name, equals, value = words[position].lstrip("-").partition("=")
        name = name.replace("-", "_")
        position += 1
        if equals:
            options[name] = value
        elif name in _FLAGS or position >= len(words) or words[position].startswith("-"):
            options[name] = True
        else:
            options[name] = words[position]
            position += 1
    return options, words[position:]
