"""Models that are no decoders, from a Hugging Face ``config.json``: BERT, T5, ViT, ResNet, CLIP.

Defaults are those of huggingface/transformers ``configuration_<family>.py``; dimensions must be in the file. What is
trained is told by ``architectures``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simgpu.workload.architecture import Architecture
from simgpu.workload.dual_encoder import DualEncoder
from simgpu.workload.encoder import Encoder
from simgpu.workload.encoder_decoder import EncoderDecoder
from simgpu.workload.model import Model
from simgpu.workload.reading import Reading
from simgpu.workload.residual_block import EXPANSION
from simgpu.workload.resnet import STEM, ResNet
from simgpu.workload.vision import VisionTransformer

_GELUS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python", "quick_gelu")
_GELU = dict.fromkeys(_GELUS, "gelu") | {"relu": "relu"}
_BERT_KIN = ("Bert", "Roberta", "XLMRoberta", "Camembert")
_BERT_HEADS = {"BertForPreTraining": "pretraining", "BertLMHeadModel": "mlm"} | {
    f"{kin}{trained}": head
    for kin in _BERT_KIN
    for trained, head in (("ForMaskedLM", "mlm"), ("ForSequenceClassification", "classifier"), ("Model", "mlm"))
}
_T5_CLASSES = (*(f"{kin}ForConditionalGeneration" for kin in ("T5", "MT5", "UMT5")), "T5WithLMHeadModel")
_T5_MLPS = {"relu": "relu", "gelu": "gelu", "gated-gelu": "geglu", "gated-silu": "swiglu"}
_CLIP: dict[str, dict[str, Any]] = {
    "vision_config": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_channels": 3,
        "image_size": 224,
        "patch_size": 32,
    },
    "text_config": {
        "vocab_size": 49408,
        "hidden_size": 512,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "max_position_embeddings": 77,
    },
}
"""What huggingface/transformers configuration_clip.py takes for what a file leaves out, dimensions included."""
_IMAGE = 224  # pixels; the usual training size where the file does not say


def _classes(reading: Reading) -> int:
    """Classes of the head: ``num_labels``, or as many as there are labels; 2 by default."""
    labels = reading.fields.get("id2label")
    return reading.integer("num_labels", default=len(labels) if isinstance(labels, dict) and labels else 2)


def _architecture(reading: Reading, allowed: tuple[str, ...]) -> str:
    """Return the first of ``architectures``, or of the allowed ones where the file names none."""
    named = reading.fields.get("architectures")
    first = named[0] if isinstance(named, list) and named else named or allowed[0]
    if first not in allowed:
        reading.problem(f"architectures = {first!r} is not modelled; allowed: {', '.join(allowed)}")
        return allowed[0]
    return str(first)


def _stack(reading: Reading, family: str, **changes: Any) -> dict[str, Any]:
    """Fields of bidirectional blocks with biases, as BERT and ViT have them."""
    hidden, heads = reading.integer("hidden_size"), reading.integer("num_attention_heads")
    if hidden % heads and not reading.problems:
        reading.problem(f"hidden_size = {hidden} is not a multiple of {heads} heads")
    return {
        "name": reading.name,
        "family": family,
        "layers": reading.integer("num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": max(hidden // heads, 1),
        "ffn": reading.integer("intermediate_size"),
        "positions": "learned",
        "norm": "layernorm",
        "mlp": reading.choice("hidden_act", allowed=_GELU, default="gelu"),
        "qkv_bias": True,
        "output_bias": True,
        "mlp_bias": True,
        "causal": False,
        **changes,
    }


def _bert(reading: Reading, family: str) -> Encoder:
    head = _BERT_HEADS[_architecture(reading, tuple(_BERT_HEADS))]
    if family != "bert" and "architectures" not in reading.fields:
        head = "mlm"  # only BERT itself has the next sentence to predict
    if reading.flag("is_decoder", default=False):
        reading.problem("is_decoder = True: a causal BERT is not modelled")
    reading.choice("position_embedding_type", allowed={"absolute": "absolute"}, default="absolute")
    fields = _stack(
        reading,
        family,
        vocab=reading.integer("vocab_size"),
        max_positions=reading.integer("max_position_embeddings", default=512),
        post_norm=True,
        tied_embeddings=reading.flag("tie_word_embeddings", default=True),
    )
    if not fields["tied_embeddings"]:
        reading.problem("tie_word_embeddings = False is not modelled for BERT; allowed: True")
    types = reading.integer("type_vocab_size", default=2)
    classes = _classes(reading) if head == "classifier" else 0
    reading.finish()
    return Encoder(
        name=reading.name, family=family, blocks=Model(**fields), token_types=types, head=head, classes=classes
    )


def _t5(reading: Reading, family: str) -> EncoderDecoder:
    _architecture(reading, _T5_CLASSES)
    encoder_layers = reading.integer("num_layers")
    heads = reading.integer("num_heads")
    fields: dict[str, Any] = {
        "name": reading.name,
        "family": family,
        "hidden": reading.integer("d_model"),
        "heads": heads,
        "kv_heads": heads,
        "head_dim": reading.integer("d_kv"),
        "ffn": reading.integer("d_ff"),
        "vocab": reading.integer("vocab_size"),
        "positions": "relative",
        "mlp": reading.choice("feed_forward_proj", allowed=_T5_MLPS, default="relu"),
        "tied_embeddings": reading.flag("tie_word_embeddings", default=True),
    }
    decoder_layers = reading.integer("num_decoder_layers", default=encoder_layers)
    buckets = reading.integer("relative_attention_num_buckets", default=32)
    reading.finish()
    return EncoderDecoder(
        name=reading.name,
        family=family,
        encoder=Model(**fields, layers=encoder_layers, causal=False),
        decoder=Model(**fields, layers=decoder_layers),
        buckets=buckets,
    )


def _vit(reading: Reading, family: str) -> VisionTransformer:
    _architecture(reading, ("ViTForImageClassification",))
    image, patch = reading.integer("image_size", default=_IMAGE), reading.integer("patch_size", default=16)
    channels, classes = reading.integer("num_channels", default=3), _classes(reading)
    if not reading.flag("qkv_bias", default=True):
        reading.problem("qkv_bias = False is not modelled for ViT; allowed: True")
    fields = _stack(reading, family, vocab=classes, max_positions=(image // patch) ** 2 + 1)
    reading.finish()
    return VisionTransformer(
        name=reading.name,
        family=family,
        blocks=Model(**fields),
        image=image,
        patch=patch,
        channels=channels,
        classes=classes,
    )


def _clip(reading: Reading, family: str) -> DualEncoder:
    _architecture(reading, ("CLIPModel",))
    parts = {}
    for key, usual in _CLIP.items():
        part = reading.fields.get(key) or {}
        if not isinstance(part, dict):
            reading.refuse(f"{key} = {part!r} is not a mapping")
        parts[key] = Reading({**usual, **part}, reading.name)
    vision, text = parts["vision_config"], parts["text_config"]
    width = reading.integer("projection_dim", default=512)
    image, patch, channels = (vision.integer(key) for key in ("image_size", "patch_size", "num_channels"))
    images = _stack(vision, family, vocab=width, max_positions=(image // patch) ** 2 + 1)
    texts = _stack(
        text,
        family,
        vocab=text.integer("vocab_size"),
        max_positions=text.integer("max_position_embeddings"),
        causal=True,
    )
    for part in (vision, text):
        reading.problems += part.problems
    reading.finish()
    return DualEncoder(
        name=reading.name,
        family=family,
        vision=VisionTransformer(
            name=reading.name,
            family=family,
            blocks=Model(**images),
            image=image,
            patch=patch,
            channels=channels,
            classes=width,
        ),
        text=Model(**texts),
    )


def _resnet(reading: Reading, family: str) -> ResNet:
    _architecture(reading, ("ResNetForImageClassification",))
    block = reading.choice("layer_type", allowed={name: name for name in EXPANSION}, default="bottleneck")
    depths = reading.fields.get("depths")
    if not isinstance(depths, list) or not depths or not all(isinstance(depth, int) for depth in depths):
        reading.problem(f"depths = {depths!r} must be a list of whole numbers")
        depths = [1]
    usual = [STEM * EXPANSION[block] << stage for stage in range(len(depths))]
    for key, value in {
        "hidden_sizes": usual,
        "embedding_size": STEM,
        "num_channels": 3,
        "downsample_in_first_stage": False,
        "downsample_in_bottleneck": False,
    }.items():
        given = reading.fields.get(key, value)
        if given != value:
            reading.problem(f"{key} = {given!r} is not modelled; allowed: {value!r}")
    image, classes = reading.integer("image_size", default=_IMAGE), _classes(reading)
    reading.finish()
    return ResNet(name=reading.name, family=family, block=block, depths=tuple(depths), image=image, classes=classes)


OTHERS: dict[str, Callable[[Reading, str], Architecture]] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert"), _bert),
    **dict.fromkeys(("t5", "mt5", "umt5"), _t5),
    "vit": _vit,
    "resnet": _resnet,
    "clip": _clip,
}
"""Readers by ``model_type``."""
