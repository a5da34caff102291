"""Arguments of Megatron and keys of NeMo that change time or memory: read, or told; never called without effect."""

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.vocabulary import tokenizer_vocabulary
from tests.imports.lines import at, line
from tests.imports.reading import read

ARGUMENTS = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 "
    "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 8 --bf16 "
    "--use-distributed-optimizer --vocab-size 32000 {}\n"
)


def job(folder: Path, words: str) -> Reading:
    return read(folder, ARGUMENTS.format(words), ".sh")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--cpu-offloading-num-layers 10", "activations of those layers stay on the GPU here"),
        ("--moe-expert-capacity-factor 2 --moe-pad-expert-input-to-capacity", "padded ones too in the job"),
        ("--overlap-param-gather-with-optimizer-step", "weights are gathered when the optimizer has updated all"),
        ("--empty-unused-memory-level 2", "PyTorch keeps its memory here"),
        ("--moe-enable-deepep", "tokens go by NCCL's all-to-all here"),
        ("--moe-token-dispatcher-type flex", "tokens go by NCCL's all-to-all here"),
        ("--moe-token-dispatcher-type allgather", "tokens go by NCCL's all-to-all here"),
        ("--exp-avg-dtype bf16 --use-precision-aware-optimizer", "moments are in fp32 here"),
    ],
)
def test_what_is_not_simulated_is_told(tmp_path: Path, words: str, told: str) -> None:
    reading = job(tmp_path, words)
    name = next(word for word in reversed(words.split()) if word.startswith("--"))
    if "exp-avg" in words:
        name = "--exp-avg-dtype"
    assert any(note.startswith(f"{name} is not simulated: ") and told in note for note in reading.notes)
    assert name in reading.used
    assert name not in reading.idle


@pytest.mark.parametrize(
    "words", ["--cpu-offloading-num-layers 0", "--empty-unused-memory-level 0", "--moe-token-dispatcher-type alltoall"]
)
def test_values_that_change_nothing_are_not_told(tmp_path: Path, words: str) -> None:
    assert not any("is not simulated" in note for note in job(tmp_path, words).notes)


def test_masters_in_16_bits(tmp_path: Path) -> None:
    words = "--use-precision-aware-optimizer --main-params-dtype fp16"
    assert job(tmp_path, words).settings["training.master_dtype"] == "fp16"
    assert job(tmp_path, "").settings["training.master_dtype"] == "fp32"
    with pytest.raises(ScenarioError, match="needs --use-precision-aware-optimizer"):
        job(tmp_path, "--main-params-dtype fp16")


DEEPSPEED = (
    "deepspeed --num_gpus 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 8 --bf16 --vocab-size 32000 "
    "--deepspeed --deepspeed_config ds.json --zero-stage 1"
)


@pytest.mark.parametrize(("types", "wanted"), [('{"grad_accum_dtype": "fp32"}', "fp32"), ("{}", None)])
def test_with_deepspeed_its_file_says_what_gradients_add_up_in(tmp_path: Path, types: str, wanted: str | None) -> None:
    config = (
        '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, '
        f'"zero_optimization": {{"stage": 1}}, "data_types": {types}}}'
    )
    run = line(tmp_path, DEEPSPEED, {"ds.json": config})
    assert at(run, "training.grad_dtype", "training.reduce_dtype") == [wanted, None]
    assert not any("goes before" in note for note in run.notes)


NEMO = (
    "trainer: {{devices: 8, num_nodes: 1, precision: bf16-mixed}}\nmodel:\n  mcore_gpt: true\n  micro_batch_size: 1\n"
    "  global_batch_size: 8\n  encoder_seq_length: 1024\n  num_layers: 4\n  hidden_size: 512\n"
    "  num_attention_heads: 8\n  max_position_embeddings: 1024\n  fsdp: true\n{}"
)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", "fp32"),
        ("  fsdp_grad_reduce_dtype: 32\n", "fp32"),
        ("  fsdp_grad_reduce_dtype: fp32\n", "fp32"),
        ("  fsdp_grad_reduce_dtype: bf16\n", "bf16"),
        ("  fsdp_grad_reduce_dtype: null\n", None),
    ],
)
def test_what_nemo_reduces_in_under_fsdp(tmp_path: Path, words: str, wanted: str | None) -> None:
    assert read(tmp_path, NEMO.format(words), ".yaml").settings.get("training.reduce_dtype") == wanted


def test_a_precision_that_nemo_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"model\.fsdp_grad_reduce_dtype = fp12: is no precision"):
        read(tmp_path, NEMO.format("  fsdp_grad_reduce_dtype: fp12\n"), ".yaml")


@pytest.mark.parametrize("amp", ["", "  megatron_amp_O2: false\n", "  megatron_amp_O2: true\n"])
def test_fsdp_reduces_as_asked_whatever_o2_says(tmp_path: Path, amp: str) -> None:
    """NeMo sets O2 to false under FSDP, whose reduction has its own key; grad_sync_dtype is of sharded optimizers."""
    words = f"{amp}  fsdp_grad_reduce_dtype: bf16\n  optim: {{name: fused_adam, grad_sync_dtype: fp32}}\n"
    settings = read(tmp_path, NEMO.format(words), ".yaml").settings
    assert (settings["training.reduce_dtype"], settings["training.param_dtype"]) == ("bf16", "fp32")
    words = f"{amp}  optim: {{name: fused_adam, grad_sync_dtype: bf16}}\n"
    assert read(tmp_path, NEMO.format(words), ".yaml").settings["training.reduce_dtype"] == "fp32"


@pytest.mark.parametrize(
    ("method", "layers", "wanted"),
    [
        ("block", "0", {"training.recompute": "none"}),
        ("block", "3", {"training.recompute": "selective", "training.recompute_layers": 3}),
        ("uniform", "0", {"training.recompute": "selective"}),
        ("uniform", "1", {"training.recompute": "selective"}),
        ("block", "null", {"training.recompute": "selective"}),
    ],
)
def test_in_how_many_layers_nemo_recomputes_the_attention_core(
    tmp_path: Path, method: str, layers: str, wanted: dict[str, object]
) -> None:
    words = (
        "  activations_checkpoint_granularity: selective\n"
        f"  activations_checkpoint_method: {method}\n  activations_checkpoint_num_layers: {layers}\n"
    )
    own = NEMO.replace("mcore_gpt: true", "mcore_gpt: false").format(words)
    found = read(tmp_path, own, ".yaml").settings
    assert {key: found[key] for key in found if key.startswith("training.recompute")} == wanted
    core = read(tmp_path, NEMO.format(words), ".yaml")
    assert core.settings["training.recompute"] == "selective"
    refused = "Megatron Core refuses"
    assert any(refused in note for note in core.notes) is (layers != "null")


COUNTED = ARGUMENTS.replace("--vocab-size 32000 ", "--make-vocab-size-divisible-by 1 ")


@pytest.mark.parametrize(
    ("words", "wanted", "told"),
    [
        ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model deepseek-ai/DeepSeek-V2-Lite --vocab-size 128256",
         100015, "--vocab-size 128256 has no effect with HuggingFaceTokenizer"),
        ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model mine --vocab-size 5000", 5000, "does not read"),
        ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B --vocab-size 128256",
         128256, None),
        ("--tokenizer-type GPT2BPETokenizer --vocab-file mine.json --vocab-size 50257", 50257, None),
        ("--tokenizer-type GPT2BPETokenizer --vocab-file mine.json --vocab-size 21248", 21248, "does not read"),
        ("--tokenizer-type NullTokenizer --vocab-size 5000", 5001, None),
        ("--tokenizer-type TikTokenizer --tokenizer-model v2.json --vocab-size 5000", 5000, None),
        ("--vocab-size 5000", 5000, None),
    ],
)  # fmt: skip
def test_a_tokenizer_that_counts_its_own(tmp_path: Path, words: str, wanted: int, told: str | None) -> None:
    reading = read(tmp_path, COUNTED.format(words), ".sh")
    assert reading.settings["model"]["vocab"] == wanted
    notes = [note for note in reading.notes if note.startswith("model.vocab: ")]
    assert len(notes) == (told is not None)
    assert told is None or told in notes[0]


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("deepseek-ai/DeepSeek-V2-Lite", 100015), ("deepseek-ai/DeepSeek-V3", 128815),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", 128256), ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", 151665),
        ("meta-llama/Llama-4-Scout-17B-16E", 202048), ("meta-llama/Llama-3.2-1B", 128256),
        ("codellama/CodeLlama-7b-hf", 32016), ("TinyLlama/TinyLlama-1.1B", 32000), ("Qwen/Qwen1.5-7B", 151646),
        ("Qwen/Qwen3-30B-A3B", 151669), ("Qwen/Qwen3.5-35B-A3B", None), ("mistralai/Mixtral-8x22B-v0.3", 32768),
        ("mistralai/Mixtral-8x7B-v0.1", 32000), ("google/gemma-2-9b", 256000), ("google/gemma-3-1b-pt", 262145),
        ("EleutherAI/pythia-1b", 50277), ("gpt2", 50257), ("/models/gpt2-xl", 50257), ("my_gpt2_tokenizer", None),
        ("HuggingFaceTB/SmolLM3-3B", 128256), ("HuggingFaceTB/SmolLM2-1.7B", 49152), ("bigscience/bloom-7b1", 250680),
    ],
)  # fmt: skip
def test_tokenizers_by_name(name: str, tokens: int | None) -> None:
    assert tokenizer_vocabulary(name) == tokens
