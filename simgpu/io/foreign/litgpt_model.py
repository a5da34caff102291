"""LitGPT's models: ``model_config.yaml``, the block ``model`` of a recipe, and lists of many.

Names and defaults: Lightning-AI/litgpt litgpt/config.py (Config) and litgpt/model.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.document import Document, mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.vocabulary import padded
from simgpu.io.text_file import read_text

KIND: Final = "litgpt-model"
LIST: Final = "litgpt-models"
_MLPS: Final = {"gptneoxmlp": "gelu", "llamamlp": "swiglu", "gemmamlp": "geglu", "llamamoe": "swiglu"}
_NORMS: Final = {"layernorm": "layernorm", "rmsnorm": "rmsnorm"}
_IDLE: Final = (
    "name", "hf_config", "block_size", "norm_eps", "rope_base", "rope_condense_ratio", "rope_adjustments",
    "rope_interleave", "rope_local_base_freq", "rope_indices", "rope_n_elem", "rotary_percentage", "gelu_approximate",
    "scale_embeddings", "attention_scores_scalar",
    "norm_1", "norm_2", "vocab_size", "padding_multiple", "n_expert", "n_expert_per_token", "n_expert_groups",
    "n_topk_groups", "n_topk_scores_per_group", "norm_topk_prob", "routed_scaling_factor", "lm_head_bias",
    "latent_attention",
)  # fmt: skip
_PRICED: Final = {
    "attention_logit_softcapping": "LitGPT keeps all scores then: --set software=eager",
    "final_logit_softcapping": "the passes that bound the logits are not simulated",
}
"""Values that are not simulated, and what is instead."""
_NAMED: Final = 8
"""Names that a message lists of a long list."""


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file describes one model of LitGPT.

    Examples
    --------
    >>> recognise(Path("model_config.yaml"), "n_layer: 2\nn_embd: 64\npadded_vocab_size: 100")
    True
    """
    data = mapping_of(text)
    if data is None or "model_type" in data:
        return False
    return "n_embd" in data and any(
        name in data for name in ("padded_vocab_size", "padding_multiple", "mlp_class_name")
    )


def recognise_list(path: Path, text: str) -> bool:
    """Return whether a file is a list of LitGPT's models.

    Examples
    --------
    >>> recognise_list(Path("all.json"), '[{"name": "pythia-14m", "n_embd": 128}]')
    True
    """
    return path.suffix.lower() == ".json" and text.lstrip()[:1] == "[" and '"n_embd"' in text and '"name"' in text


def read_litgpt_model(path: Path) -> Reading:
    r"""Read the description of one model.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model_config.yaml"
    ...     _ = path.write_text("n_layer: 2\nn_embd: 64\nn_head: 4\npadded_vocab_size: 100")
    ...     read_litgpt_model(path).settings["model"]["ffn"]
    256
    """
    ledger = Ledger(read_document(path))
    model = litgpt_model(ledger)
    return ledger.reading(KIND, {"model": model})


def read_litgpt_models(path: Path) -> Reading:
    """Read a list of models, of which ``--model`` picks one.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading
        The path is in ``open["listed_models"]``.

    Raises
    ------
    ScenarioError
    """
    _listed(path)
    return Reading(source=path.name, kind=LIST, settings={}, open={"listed_models": str(path)})


def listed_model(path: Path, name: str | None) -> dict[str, Any]:
    """Return one model of a list.

    Parameters
    ----------
    path : Path
    name : str or None
        As the list has it, in any case.

    Returns
    -------
    dict
        A scenario's ``model``.

    Raises
    ------
    ScenarioError
        Naming some of the list where the name is missing or not in it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "all.json"
    ...     _ = path.write_text('[{"name": "Pythia-14m", "n_layer": 6, "n_embd": 128, "n_head": 4}]')
    ...     listed_model(path, "pythia-14m")["layers"]
    6
    """
    models = _listed(path)
    names = [str(entry.get("name")) for entry in models]
    found = next((entry for entry in models if name and str(entry.get("name")).lower() == name.lower()), None)
    if found is None:
        problem = "is not in the list" if name else "is missing: the file holds many models, and a run has one"
        allowed = ", ".join([*names[:_NAMED], f"{len(names) - _NAMED} more"] if len(names) > _NAMED else names)
        raise ScenarioError([Issue(field="--model", value=name, problem=problem, allowed=allowed, file=path.name)])
    return litgpt_model(Ledger(Document(source=path.name, data=found)))


def _listed(path: Path) -> list[dict[str, Any]]:
    try:
        data = json.loads(read_text(path, str(path)))
    except (ValueError, RecursionError) as error:
        told = (
            f"is not valid JSON: {error}" if isinstance(error, json.JSONDecodeError) else "is no JSON that can be read"
        )
        raise ScenarioError([Issue(field="", problem=told, file=path.name)]) from None
    models = [entry for entry in data if isinstance(entry, dict) and "name" in entry] if isinstance(data, list) else []
    if not models:
        raise ScenarioError([Issue(field="", problem="holds no models", file=path.name)])
    return models


def litgpt_model(ledger: Ledger, at: str = "") -> dict[str, Any]:
    """Return the dimensions of a model.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of every key, such as ``model.``.

    Returns
    -------
    dict
        A scenario's ``model``.

    Raises
    ------
    ScenarioError
        Naming what a scenario's dimensions do not hold.

    Examples
    --------
    >>> data = {"name": "pythia-14m", "n_layer": 6, "n_embd": 128, "n_head": 4, "padding_multiple": 128}
    >>> model = litgpt_model(Ledger(Document(source="x.yaml", data=data)))
    >>> model["vocab"], model["ffn"], model["parallel_residual"]
    (50304, 512, True)
    """

    def size(key: str, default: int) -> int:
        return ledger.integer(f"{at}{key}", least=1) or default

    hidden, heads = size("n_embd", 4096), size("n_head", 32)
    mlp = ledger.choice(f"{at}mlp_class_name", _MLPS) or "gelu"
    kind = (ledger.text(f"{at}mlp_class_name") or "").lower()
    inner = ledger.integer(f"{at}intermediate_size", least=1)
    if inner is None and mlp != "gelu":
        ledger.refuse(f"{at}intermediate_size", f"is missing, which {kind} needs")
    bias = ledger.flag(f"{at}bias") is not False
    parallel = ledger.flag(f"{at}parallel_residual") is not False
    if parallel and ledger.flag(f"{at}shared_attention_norm"):
        ledger.refuse(f"{at}shared_attention_norm", "is not read: one norm for two branches", fix=_CONFIG)
    for key in ("post_attention_norm", "post_mlp_norm"):
        if ledger.flag(f"{at}{key}") and ledger.flag(f"{at}norm_1") is not False:
            ledger.refuse(f"{at}{key}", "is not read: norms behind attention and MLP", fix=_CONFIG)
    if isinstance(ledger.raw(f"{at}latent_attention"), Mapping):
        ledger.refuse(f"{at}latent_attention", "is not read", fix=_CONFIG)
    if ledger.text(f"{at}norm_qk_type") == "olmo2":
        ledger.refuse(f"{at}norm_qk_type", "is not read: norms over all heads together", fix=_CONFIG)
    vocabulary = ledger.integer(f"{at}padded_vocab_size", least=1) or padded(
        size("vocab_size", 50254), size("padding_multiple", 512), 1
    )
    model: dict[str, Any] = {
        "layers": size("n_layer", 16),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": ledger.integer(f"{at}n_query_groups", least=1),
        "head_dim": ledger.integer(f"{at}head_size", least=1),
        "ffn": inner or 4 * hidden,
        "vocab": vocabulary,
        "norm": ledger.choice(f"{at}norm_class_name", _NORMS) or "layernorm",
        "mlp": mlp,
        "qkv_bias": bias or bool(ledger.flag(f"{at}attn_bias")),
        "output_bias": bias,
        "mlp_bias": bias,
        "qk_norm": ledger.flag(f"{at}norm_qk"),
        "parallel_residual": parallel,
        "sliding_window": ledger.integer(f"{at}sliding_window_size", least=1),
    }
    ledger.get(f"{at}sliding_window_indices")
    if kind == "llamamoe":
        for key in ("n_shared_expert", "first_k_dense_replace"):
            if ledger.integer(f"{at}{key}"):
                ledger.refuse(f"{at}{key}", "is not read: experts that all tokens pass, or layers without", fix=_CONFIG)
        model |= {
            "experts": size("n_expert", 1),
            "experts_per_token": size("n_expert_per_token", 1),
            "expert_ffn": ledger.integer(f"{at}moe_intermediate_size", least=1) or model["ffn"],
        }
    ledger.told(_PRICED, at)
    ledger.idle(*(f"{at}{key}" for key in _IDLE))
    return {key: value for key, value in model.items() if value is not None and value is not False}


_CONFIG: Final = "give the model's config.json by --model"
