"""Own files of the Megatron family and torchtitan, whose every field was worked out by hand."""

from pathlib import Path

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign.gptneox import read_gptneox
from simgpu.io.foreign.kinds import read_foreign
from simgpu.io.foreign.megatron_args import read_megatron_args
from simgpu.io.foreign.torchtitan import read_torchtitan
from simgpu.io.foreign.torchtitan_pipeline import spread_layers

CONFIGS = Path(__file__).parent / "configs"
EXPECTED = {
    "megatron.args": {
        "parallel.tp": 4,
        "parallel.pp": 4,
        "parallel.virtual_stages": 4,  # 48 layers / 4 ranks / 3 a stage
        "parallel.overlap_p2p": True,
        "parallel.sequence_parallel": True,
        "parallel.data_parallel": "distributed_optimizer",
        "distributed_optimizer.overlap_grad_reduce": True,
        "distributed_optimizer.overlap_param_gather": True,
        "training.micro_batch_size": 1,
        "training.global_batch_size": 256,
        "training.precision": "fp8",
        "training.param_dtype": "bf16",
        "training.grad_dtype": "fp32",
        "training.recompute": "full",
        "training.recompute_layers": 2,
        "training.dropout": 0.0,
        "software": {"preset": "te", "cross_entropy": "chain", "fp8_scaling": "delayed"},
        "cluster.nodes": 4,
    },
    "megatron.sh": {
        "parallel.tp": 2,
        "parallel.pp": 2,
        "parallel.data_parallel": "ddp",
        "parallel.scatter_gather_tensors_in_pipeline": True,
        "training.global_batch_size": 64,
        "training.precision": "fp16",
        "training.grad_dtype": "fp16",
        "training.recompute": "full",
        "training.dropout": 0.1,
        "software": "megatron-2021",
        "network.nccl.algo": "Ring",
        "cluster.nodes": 2,
    },
    "megatron.yaml": {
        "parallel.layers_per_stage": [3, 2, 2, 2, 2, 2, 2, 0],
        "parallel.virtual_stages": 4,
        "parallel.ep": 4,
        "parallel.expert_tp": 1,
        "parallel.data_parallel": "ddp",
        "training.sequence_length": 1024,
        "training.precision": "bf16",
        "software": {"preset": "te", "cross_entropy": "chain"},
        "network.nccl.algo": "Tree",
    },
    "nemo.yaml": {
        "parallel.virtual_stages": 3,
        "parallel.overlap_p2p": False,
        "parallel.tp_overlap": True,
        "parallel.data_parallel": "distributed_optimizer",
        "distributed_optimizer.overlap_grad_reduce": True,
        "distributed_optimizer.overlap_param_gather": False,
        "training.precision": "fp8",
        "training.reduce_dtype": "bf16",
        "training.recompute": "selective",
        "training.dropout": 0.1,
        "cluster.nodes": 2,
    },
    "neox.yml": {
        "parallel.tp": 2,
        "parallel.pp": 2,
        "parallel.data_parallel": "zero1",
        "zero.reduce_bucket_size": 260_000_000,
        "zero.overlap_comm": True,
        "training.micro_batch_size": 4,
        "training.gradient_accumulation": 4,
        "training.global_batch_size": 64,
        "training.precision": "bf16",
        "training.recompute": "full",
        "training.dropout": 0.0,
        "software": {
            "preset": "megatron-2023",
            "optimizer": "fused",
            "unfused": ["bias_activation", "bias_dropout"],
        },
    },
    "titan.toml": {
        "model": "llama-3-8b",
        "parallel.tp": 2,
        "parallel.sequence_parallel": True,
        "parallel.schedule": "interleaved_1f1b",
        "parallel.virtual_stages": 2,
        "parallel.layers_per_stage": [4, 5, 4, 4, 4, 4, 4, 3],
        "parallel.data_parallel": "hsdp",
        "parallel.dp": 8,
        "fsdp.shard_size": 4,
        "fsdp.reshard_after_forward": False,  # with a pipeline, torchtitan keeps the weights
        "training.micro_batch_size": 2,
        "training.gradient_accumulation": 4,  # 64 sequences of 8 replicas with 2 each
        "training.recompute": "full",
        "training.recompute_layers": 1,  # every fourth of 8 layers on a rank
        "training.reduce_dtype": "fp32",
        "software": "compile",
    },
}
MODELS = {
    "megatron.args": {"layers": 48, "kv_heads": 8, "ffn": 14336, "vocab": 32256, "mlp": "swiglu", "qkv_bias": False},
    "megatron.sh": {"ffn": 8192, "vocab": 50432, "positions": "learned", "tied_embeddings": True, "mlp_bias": True},
    "megatron.yaml": {"kv_lora_rank": 256, "q_lora_rank": 768, "experts": 16, "dense_layers": 3, "shared_ffn": 512},
    "nemo.yaml": {"ffn": 4096, "max_positions": 2048, "vocab": 50432, "norm": "layernorm"},
    "neox.yml": {"ffn": 4096, "vocab": 50432, "parallel_residual": True, "qkv_bias": False, "mlp_bias": True},
}
GPUS = {"megatron.args": 32, "megatron.sh": 16, "megatron.yaml": None, "nemo.yaml": 16, "neox.yml": None}
KINDS = {
    "megatron.args": "megatron-args",
    "megatron.sh": "megatron-args",
    "megatron.yaml": "megatron-yaml",
    "nemo.yaml": "nemo",
    "neox.yml": "gptneox",
    "titan.toml": "torchtitan",
}
ANSWERS = {"megatron.yaml": 16, "neox.yml": 16, "titan.toml": 64}


@pytest.mark.parametrize("name", EXPECTED)
def test_fields_are_those_worked_out_by_hand(name):
    reading = read_foreign(CONFIGS / name)
    assert reading.kind == KINDS[name]
    assert {field: reading.settings.get(field) for field in EXPECTED[name]} == EXPECTED[name]
    if name in MODELS:
        model = reading.settings["model"]
        assert {field: model.get(field) for field in MODELS[name]} == MODELS[name]
        assert reading.gpus == GPUS[name]
    assert not reading.open


@pytest.mark.parametrize("name", EXPECTED)
def test_they_become_scenarios_that_load(name):
    imported = import_run([CONFIGS / name], RunAnswers(topology="dgx-h100", gpus=ANSWERS.get(name)))
    assert imported.data["training"]["gradient_accumulation"] >= 1


def test_every_key_is_used_idle_or_unknown():
    reading = read_foreign(CONFIGS / "megatron.args")
    assert reading.unknown == ("--made-up-option",)
    assert "--save" in reading.idle
    assert "--num-layers" in reading.used
    lines = (CONFIGS / "megatron.args").read_text(encoding="utf-8").splitlines()
    assert {*reading.used, *reading.idle, *reading.unknown} == {line.split()[0] for line in lines}
    assert any("256, the script's own default" in note for note in reading.notes)


def test_script_variables_stay_open_and_must_be_given(tmp_path):
    script = tmp_path / "run.args"
    script.write_text(
        "--num-layers 4\n--hidden-size 256\n--num-attention-heads 4\n--seq-length 512\n--max-position-embeddings 512\n"
        "--micro-batch-size $3\n--global-batch-size 16\n--tensor-model-parallel-size ${TP}\n--bf16\n",
        encoding="utf-8",
    )
    with pytest.raises(ScenarioError, match=r"parallel.tp: is left open: --tensor-model-parallel-size \$\{TP\}"):
        import_run([script], RunAnswers(topology="dgx-a100", gpus=8))
    given = ("parallel.tp=2", "training.micro_batch_size=4")
    imported = import_run([script], RunAnswers(topology="dgx-a100", gpus=8, settings=given))
    assert imported.data["parallel"]["tp"] == 2
    assert imported.data["training"]["gradient_accumulation"] == 1


GPT = "--num-layers 24\n--hidden-size 1024\n--num-attention-heads 16\n--seq-length 512\n--max-position-embeddings 512\n"
RUN = GPT + "--micro-batch-size 1\n--vocab-size 1000\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--tp-comm-overlap", "needs --sequence-parallel in Megatron"),
        ("--overlap-param-gather", "needs --use-distributed-optimizer in Megatron"),
        (
            "--use-torch-fsdp2 --use-distributed-optimizer",
            "is not supported with --use-distributed-optimizer by Megatron",
        ),
        (
            "--use-torch-fsdp2 --pipeline-model-parallel-size 2",
            "with --pipeline-model-parallel-size above 1 by Megatron",
        ),
        (
            "--pipeline-model-parallel-size 4\n--num-layers-per-virtual-pipeline-stage 4",
            "does not divide the 24 layers",
        ),
        ("--optimizer muon", "is not simulated; allowed: adam, sgd"),
        ("--img-h 336", "a vision tower beside the language model is not simulated"),
        ("--hybrid-override-pattern M-M*", r"state-space \(Mamba\) layers are not simulated"),
        ("--fp4-format e2m1", "is not simulated: matrix products in 4 bits"),
        ("--num-layers two", "is no whole number"),
        ("--moe-layer-freq __import__('os')\n--num-experts 4", "does not say of 24 layers which have experts"),
        ("--pipeline-model-parallel-size 2\n--pipeline-model-parallel-layout Ex|L", "is no pipeline layout"),
        ("--position-embedding-type mrope", "is not simulated; allowed: learned_absolute, rope"),
    ],
)
def test_what_megatron_or_simgpu_refuses_is_named(tmp_path, arguments, says):
    path = tmp_path / "run.args"
    path.write_text(RUN + arguments, encoding="utf-8")
    with pytest.raises(ScenarioError, match=says):
        read_megatron_args(path)


UNFUSED_LOSS = {"preset": "te", "cross_entropy": "chain"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", {"software": "te"}),
        ("--cross-entropy-loss-fusion", {"software": {"preset": "te", "cross_entropy": "native"}}),
        ("", {"software": UNFUSED_LOSS, "parallel.data_parallel": "ddp", "training.precision": "fp32"}),
        ("--bf16\n--use-flash-attn", {"software": "megatron-2023", "training.grad_dtype": "fp32"}),
        ("--bf16\n--sequence-parallel", {"software": "megatron-2022"}),
        ("--fp16\n--checkpoint-activations", {"software": "megatron-2021", "training.grad_dtype": "fp16"}),
        ("--attention-backend unfused", {"software": "megatron-2022"}),
        ("--recompute-activations", {"training.recompute": "selective"}),
        ("--recompute-granularity selective\n--recompute-modules moe_act", {"training.recompute": "none"}),
        ("--use-tp-pp-dp-mapping", {"parallel.order": ["dp", "pp", "cp", "tp"]}),
        ("--overlap-grad-reduce", {"ddp.bucket_cap_mb": None}),
        ("--bf16\n--grad-reduce-in-bf16", {"training.reduce_dtype": "bf16"}),
        ("--deepspeed\n--zero-stage 2\n--fp16", {"parallel.data_parallel": "zero2", "training.reduce_dtype": "fp16"}),
        (
            "--pipeline-model-parallel-size 2\n--account-for-embedding-in-pipeline-split\n"
            "--account-for-loss-in-pipeline-split",
            {"parallel.layers_per_stage": [12, 12]},
        ),
        (
            "--pipeline-model-parallel-size 4\n--decoder-first-pipeline-num-layers 4\n"
            "--decoder-last-pipeline-num-layers 6",
            {"parallel.layers_per_stage": [4, 7, 7, 6]},
        ),
    ],
)
def test_options_mean_here_what_they_mean_there(tmp_path, arguments, expected):
    path = tmp_path / "run.args"
    path.write_text(RUN + arguments, encoding="utf-8")
    settings = read_megatron_args(path).settings
    assert {field: settings.get(field) for field in expected} == expected


def test_options_that_exclude_each_other_leave_the_field_open(tmp_path):
    path = tmp_path / "run.args"
    path.write_text(RUN + "--fp16\n--bf16\n--recompute-activations\n--recompute-granularity full\n", encoding="utf-8")
    reading = read_megatron_args(path)
    assert set(reading.open) == {"training.precision", "training.recompute"}
    assert "training.precision" not in reading.settings


def test_experts_of_megatron_deepspeed_are_in_every_second_layer(tmp_path):
    path = tmp_path / "moe.args"
    path.write_text(
        RUN.replace("layers 24", "layers 4") + "--num-experts 8\n--deepspeed\n--zero-stage 1\n--bf16\n",
        encoding="utf-8",
    )
    model = read_megatron_args(path).settings["model"]
    assert (model["dense_layers"], model["experts_per_token"], model["expert_ffn"]) == ([0, 2], 1, 4096)


def test_gated_width_of_neox_is_a_third_and_said_so(tmp_path):
    path = tmp_path / "m.yml"
    path.write_text(
        '{"pipe_parallel_size": 1, "num_layers": 2, "hidden_size": 4096, "num_attention_heads": 32,'
        ' "activation": "swiglu", "intermediate_size": 14336}',
        encoding="utf-8",
    )
    reading = read_gptneox(path)
    assert reading.settings["model"]["ffn"] == int(14336 * 2 / 3) // 2
    assert any("--set model.ffn=14336" in note for note in reading.notes)


def test_torchtitan_spreads_layers_with_embedding_and_head_as_one_each():
    assert spread_layers(126, 16) == [7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7]  # 128 / 16 = 8
    assert sum(spread_layers(32, 8)) == 32


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[parallelism]\ntensor_parallel_degree = 1\n[parallelism]", r"job\.toml:3: is broken TOML"),
        ("[training]\nlocal_batch_size = 2\n[parallelism]\npipeline_parallel_degree = 4", "PyTorch's 1F1B needs one"),
        ("[training]\n[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'X'", "no schedule"),
        ("[training]\nlocal_batch_size = 2.5\n[parallelism]\ntensor_parallel_degree = 1", "is no whole number"),
        ("[training]\n[parallelism]\ntensor_parallel_degree = 1\n[model]\nconverters = ['mx']", "MX formats"),
    ],
)
def test_torchtitan_refusals_name_the_field(tmp_path, text, says):
    path = tmp_path / "job.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=says):
        read_torchtitan(path)


def test_table_of_runs_becomes_variants(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(
        "case,tp,pp,mbs,gbs,layers,hidden,heads,nodes_of_8,num_layers_per_virtual_pipeline_stage,recompute\n"
        "plain,8,4,1,16,24,1024,16,4,,yes\ninterleaved,8,4,1,16,24,1024,16,4,2,no\n",
        encoding="utf-8",
    )
    variants = read_foreign(path).settings["variants"]
    assert variants[1]["set"]["parallel.virtual_stages"] == 3  # 24 / 4 / 2
    assert variants[0]["set"]["training.gradient_accumulation"] == 16
    path.write_text(path.read_text(encoding="utf-8").replace("plain,8,4,1", "plain,8,4,3"), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"runs.csv:2: global_batch: is not divided by"):
        read_foreign(path)
