"""What is advised, written into the framework's file, is imported as what was simulated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simgpu.advice.levers import Lever, levers
from simgpu.advice.options import filled
from simgpu.config.case import Case
from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.config.load import load_cases
from simgpu.errors import ScenarioError

NANOTRON = {
    "parallelism": {"dp": 8, "tp": 2, "pp": 1, "tp_mode": "ALL_REDUCE"},
    "tokens": {"micro_batch_size": 2, "sequence_length": 2048, "batch_accumulation_per_replica": 4},
    "optimizer": {"zero_stage": 1},
    "model": {"dtype": "bfloat16", "model_config": {
        "is_llama_config": True, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "intermediate_size": 11008, "vocab_size": 32000,
    }},
}  # fmt: skip
PICOTRON = {
    "distributed": {"tp_size": 2, "dp_size": 8, "pp_size": 1, "cp_size": 1, "pp_engine": "1f1b"},
    "model": {"name": "meta-llama/Llama-2-7b-hf", "dtype": "bfloat16"},
    "training": {"seq_length": 2048, "micro_batch_size": 2, "gradient_accumulation_steps": 4},
}
TORCHTUNE = {
    "model": {"_component_": "torchtune.models.llama2.llama2_7b"}, "tokenizer": {"max_seq_len": 2048}, "batch_size": 2,
    "optimizer": {"_component_": "torch.optim.AdamW"}, "loss": {"_component_": "torchtune.modules.loss.X"},
    "dtype": "bf16", "gradient_accumulation_steps": 4, "data_parallel_shard_dim": 8, "tensor_parallel_dim": 2,
}  # fmt: skip
FOUNDRY = {
    "max_seq_len": 2048, "global_train_batch_size": 64, "device_train_microbatch_size": 2, "precision": "amp_bf16",
    "model": {"name": "mpt_causal_lm", "d_model": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 50368},
    "optimizer": {"name": "decoupled_adamw"}, "fsdp_config": {"sharding_strategy": "FULL_SHARD"},
}  # fmt: skip
TITAN = {
    "model": {"name": "llama3", "flavor": "8B"}, "training": {"local_batch_size": 4, "seq_len": 2048},
    "parallelism": {"data_parallel_shard_degree": 4, "tensor_parallel_degree": 2},
}  # fmt: skip
PIPED = {**TITAN, "parallelism": {**TITAN["parallelism"], "pipeline_parallel_degree": 2}}
ALONE = {**PIPED, "training": {**PIPED["training"], "local_batch_size": 8, "global_batch_size": 64}}
FILES = {
    "nanotron": ("yaml", NANOTRON), "picotron": ("json", PICOTRON), "torchtune": ("yaml", TORCHTUNE),
    "llm-foundry": ("yaml", FOUNDRY), "torchtitan": ("toml", TITAN), "torchtitan, pipeline": ("toml", PIPED),
    "torchtitan, runs of a pipeline": ("toml", ALONE),
}  # fmt: skip


def imported(path: Path, data: Mapping[str, Any], gpus: int | None = None) -> dict[str, Any]:
    if path.suffix == ".toml":
        path.write_text("".join(f"[{table}]\n{_toml(keys)}" for table, keys in data.items()))
    else:
        path.write_text(json.dumps(data))
    return import_run([path], RunAnswers(topology="dgx-a100", gpus=gpus)).data


def _toml(keys: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def with_option(data: Mapping[str, Any], option: str) -> dict[str, Any]:
    """Return a file with an option in it: ``a.b: 1, c: x`` or ``[table] a = 1, b = 2``."""
    changed = json.loads(json.dumps(data))
    table = ""
    for piece in option.partition(" (")[0].split(", ") if "), " not in option else _pieces(option):
        if piece.startswith("["):
            table, _, piece = piece[1:].partition("] ")
        key, _, value = piece.replace(" = ", ": ").partition(": ")
        *blocks, name = ([table] if table else []) + key.split(".")
        home = changed
        for block in blocks:
            home = home.setdefault(block, {})
        home[name] = {"true": True, "false": False}.get(value, int(value) if value.isdecimal() else value.strip('"'))
    return changed


def _pieces(option: str) -> list[str]:
    return [piece.partition(" (")[0] for piece in option.replace("), ", ")\n").replace(", [", "\n[").split("\n")]


def changes(data: Mapping[str, Any], case: Case) -> list[tuple[Lever, str, Case]]:
    """Return the levers that the scenario can have, with their options and the cases that they make."""
    found = []
    for lever in levers(case):
        after = json.loads(json.dumps(data))
        for path, value in lever.settings.items():
            block, _, name = path.rpartition(".")
            home = after.setdefault(block, {}) if block else after
            if value is None:
                home.pop(name, None)
            else:
                home[name] = value
        try:
            (changed,) = load_cases(after)
        except ScenarioError:
            continue
        found.append((lever, filled(lever.option, changed), changed))
    return found


@pytest.mark.parametrize("name", FILES)
def test_an_option_is_imported_as_what_was_simulated(name: str, tmp_path: Path) -> None:
    suffix, file = FILES[name]
    path = tmp_path / f"run.{suffix}"
    data = imported(path, file)
    (before,) = load_cases(data)
    tried = changes(data, before)
    assert len(tried) > 2
    for lever, option, wanted in tried:
        again = imported(path, with_option(file, option), data["cluster"]["gpus"])
        (found,) = load_cases(again)
        assert said(found) == said(wanted), (lever.name, option)


def said(case: Case) -> dict[str, Any]:
    """Return what levers change and options say; where layers stand is for the import to place."""
    strategy, training = case.strategy, case.training
    kind = strategy.data_parallel if strategy.dp > 1 else "none"  # one rank shares nothing out
    return {
        "ranks": strategy.dp * strategy.tp * strategy.pp, "batch": case.global_batch_size,
        "micro": training.micro_batch_size,
        "steps": training.accumulation, "run": strategy.pipeline_microbatches or training.accumulation,
        "tp": strategy.tp, "dp": strategy.dp, "pp": strategy.pp, "schedule": strategy.schedule,
        "virtual": strategy.virtual_stages, "recompute": training.recompute, "kind": kind,
        "sequence": strategy.sequence_parallel,
    }  # fmt: skip
