"""Every mistake is answered with file, line, field and what to do, all mistakes at once."""

import math

import pytest

from simgpu.config import load_cases, load_scenario
from simgpu.errors import ScenarioError

LINE = {
    "model": 1, "cluster": 2, "topology": 3, "gpus": 4, "training": 5, "sequence": 6, "micro": 7, "global": 8,
    "parallel": 9, "tp": 10, "added": 11,
}  # fmt: skip


def issues(path, **options):
    with pytest.raises(ScenarioError) as caught:
        load_cases(path, **options)
    return caught.value.issues


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("  tp: 2", "  tpp: 2", "tp", "parallel.tpp = 2: is not a field of SimGPU; fix: did you mean parallel.tp"),
        ("  tp: 2", "  tp: 3", "tp", "parallel.tp = 3: does not divide the 32 attention heads of llama-2-7b"),
        ("  tp: 2", "  tp: 16", "tp", "tp x pp = 16 x 1 = 16 does not divide the 8 GPUs"),
        ("  tp: 2", "  tp: 0", "tp", "parallel.tp = 0: is below 1"),
        ("  tp: 2", "  tp: -2", "tp", "parallel.tp = -2: is negative"),
        ("  tp: 2", "  tp: true", "tp", "parallel.tp = true: is a boolean"),
        ("  tp: 2", "  tp: 1.5", "tp", "parallel.tp = 1.5: is not a whole number"),
        ("  tp: 2", "  tp: .nan", "tp", "is not a finite number"),
        ("  tp: 2", "  tp: .inf", "tp", "is not a finite number"),
        ("  tp: 2", "  tp: two", "tp", "does not start with a number"),
        ("  tp: 2", "  tp: [2]", "tp", "is a list"),
        ("  tp: 2", "  tp:", "tp", "parallel.tp: is empty; fix: write a value, or delete the line"),
        ("  tp: 2", "  sequence_parallel: 1", "tp", "is not true or false"),
        ("  tp: 2", "  sequence_parallel: yes", "tp", "is not true or false"),
        ("  tp: 2", "  pp: 5", "tp", "parallel.pp = 5: does not divide the 32 layers"),
        ("  tp: 2", "  dp: 3", "tp", "is not the 8 GPUs of the cluster; allowed: 8"),
        ("  tp: 2", "  order: [tp, dp]", "tp", "leaves out pp; allowed: pp, dp and tp"),
        ("  tp: 2", "  order: [tp, dp, tp]", "tp", "leaves out pp and names tp twice"),
        ("  tp: 2", "  order: tp", "tp", "is not a list"),
        ("  tp: 2", "  order: [tp, dp, xx]", "tp", "parallel.order[2] = xx: is not known"),
        ("  tp: 2", "  data_parallel: none", "tp", "leaves dp = 8 copies"),
        ("  tp: 2", "  data_parallel: fsdp2", "tp", "fsdp1, fsdp, hsdp, distributed_optimizer; fix: use fsdp"),
        ("  tp: 2", "  tensor_model_parallel_size: 2", "tp", "fix: use parallel.tp"),
        ("parallel:\n  tp: 2", "parallel: 2", "parallel", "parallel = 2: is not a mapping of fields"),
        ("global_batch_size: 64", "global_batch_size: 63", "global", "is not a multiple of dp x micro_batch_size"),
        ("global_batch_size: 64", "train_batch_size: 63", "global", "training.train_batch_size = 63: is not a multi"),
        ("global_batch_size: 64", "gbs: 64", "global", "fix: use training.global_batch_size"),
        ("micro_batch_size: 1", "mbs: 1", "micro", "fix: use training.micro_batch_size"),
        ("micro_batch_size: 1", "precision: fp8", "micro", "A100-SXM4-80GB (Ampere) has no fp8 arithmetic"),
        ("micro_batch_size: 1", "optimizer: lion", "micro", "training.optimizer = lion: is not known"),
        ("micro_batch_size: 1", "dropout: 1", "micro", "is no probability of dropping out; allowed: from 0 to below 1"),
        ("micro_batch_size: 1", "dropout: -0.1", "micro", "training.dropout = -0.1: is negative"),
        ("micro_batch_size: 1", "precision: float16", "micro", "fix: use fp16"),
        ("micro_batch_size: 1", "precision: 16", "micro", "training.precision = 16: is not known"),
        ("sequence_length: 4096", "sequence_length: 4 KiB", "sequence", "unknown unit 'KiB'"),
        ("llama-2-7b", "llama2-7b", "model", "fix: did you mean llama-2-7b"),
        ("llama-2-7b", "my/config.json", "model", "there is no file"),
        ("llama-2-7b", "{layers: 2, hidden: 64}", "model", "model: heads, vocab and ffn are missing; fix: add"),
        ("llama-2-7b", "{layers: 2, hidden: 64, heads: 2, vocab: 5}", "model", "model.ffn: is missing; fix: add it"),
        ("llama-2-7b", "{layers: 2, hidden: 64, heads: 2, vocab: 5, mlp: tanh}", "model", "model.mlp = tanh"),
        ("llama-2-7b", "{layers: 2, hidden_size: 64, heads: 2, vocab: 5}", "model", "fix: use model.hidden"),
        ("llama-2-7b", "{layers: 2, hidden: 65, heads: 2, vocab: 5, ffn: 8}", "model", "not a multiple of heads"),
        ("llama-2-7b", "{stages: 4, forward_ns: 1 ms}", "model", "model.backward_ns: is missing"),
        ("llama-2-7b", "{stages: 4, forward_ns: 1 ms, backward_ns: 0}", "model", "model.backward_ns = 0: is zero"),
        ("llama-2-7b", "{stages: 2, forward_ns: [1, 2], backward_ns: [1, 2, 3]}", "model", "lists 3 stages"),
        ("  tp: 2", "  pp: 4\n  layers_per_stage: [8, 8, 8, 9]", "added", "sums to 33, not to the 32 layers"),
        ("  tp: 2", "  pp: 2\n  layers_per_stage: [8, 8, 16]", "added", "3 entries for 2 pipeline stages"),
        ("  tp: 2", "  pp: 64", "tp", "is more stages than the 32 layers"),
        ("llama-2-7b", "[1, 2]", "model", "is not a mapping of fields"),
        ("llama-2-7b", "7", "model", "is not a mapping of fields"),
        ("dgx-a100", "dgx-a1000", "topology", "fix: did you mean dgx-a100?"),
        ("dgx-a100", "mine/x.yaml", "topology", "there is no file"),
        ("  gpus: 8", "  gpus: 9", "gpus", "cluster.gpus = 9"),
        ("  gpus: 8", "  gpus: 0", "gpus", "is below 1"),
        ("  gpus: 8", "  gpus: 16", "gpus", "cluster.gpus = 16"),
        ("  gpus: 8", "  fabric: {oversubscription: 0.5}", "gpus", "cluster.fabric.oversubscription = 0.5: is below 1"),
        ("  gpus: 8", "  fabric: {kind: ring}", "gpus", "cluster.fabric.kind = ring: is not known"),
        ("  gpus: 8", "  fabric: {link: string}", "gpus", "cluster.fabric.link"),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_with_its_line_and_a_way_out(write, old, new, line, words):
    path = write((old, new))
    texts = [str(issue) for issue in issues(path)]
    hits = [text for text in texts if words in text]
    assert hits, texts
    assert hits[0].startswith(f"{path}:{LINE[line]}: ")


@pytest.mark.parametrize(
    ("add", "words"),
    [
        ("perturb: {seed: 1}\n", "has no effect without jitter; fix: set perturb.jitter, or leave it out"),
        ("sweep: {parallel.tp: [1, 2]}\n", "sweep: is a grid of many runs; fix: play it with simgpu sweep"),
    ],
)
def test_what_is_not_simulated_is_refused_by_name(write, add, words):
    path = write(add=add)
    (issue,) = issues(path)
    assert words in str(issue)
    assert issue.line == LINE["added"]


@pytest.mark.parametrize(
    "add",
    ["  cp: 1\n", "  tp_overlap: false\n", "software: flash\n", "software: {preset: flash}\n", "network: FREE\n",
     "  schedule: GPipe\n", "  data_parallel: fsdp\nfsdp: {cpu_offload: false}\n", "ddp:\n", "zero: {}\n",
     "$schema: x\n"],
)  # fmt: skip
def test_the_simulated_value_of_such_a_field_is_fine(write, add):
    assert load_cases(write(add=add))


def test_a_synthetic_model_has_its_own_stages_and_nothing_to_split(write):
    synthetic = "{stages: 4, forward_ns: 1, backward_ns: 2}"
    path = write(("llama-2-7b", synthetic), add="  pp: 2\n  layers_per_stage: [1, 1]\n")
    texts = [str(issue) for issue in issues(path)]
    for words in ("nothing that tensor parallelism could split", "is not the 4 stages", "has stages, not layers"):
        assert any(words in text for text in texts), texts


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(write):
    path = write(
        ("llama-2-7b", "llama-9"), ("dgx-a100", "dgx-b"), ("gpus: 8", "gpus: x"), ("global_batch_size", "globl"),
        ("tp: 2", "tp: 0"), add="zeros: 1\n",
    )  # fmt: skip
    found = issues(path)
    assert [issue.line for issue in found] == [1, 3, 4, 8, 10, 11]


def test_a_misspelt_field_is_not_called_missing_as_well(write):
    assert len(issues(write(("topology", "topolgy")))) == 1
    assert len(issues(write(("sequence_length", "sequencelength")))) == 1
    assert len(issues(write(("micro_batch_size", "microbatchsize")))) == 1
    assert len(issues(write(("llama-2-7b", "{layers: 2, hidden_size: 64, heads: 2, vocab: 5, ffn: 8}")))) == 1


def test_a_field_in_the_wrong_block_is_sent_home(write):
    (issue,) = issues(write(add="precision: bf16\n"))
    assert issue.fix == "it belongs elsewhere: use training.precision"


@pytest.mark.parametrize("missing", ["model", "cluster", "training"])
def test_missing_blocks(missing):
    data = {"model": "gpt2", "cluster": {"topology": "dgx-a100", "gpus": 1}, "training": {"sequence_length": 8,
            "micro_batch_size": 1}}  # fmt: skip
    del data[missing]
    found = issues(data)
    assert [issue.field for issue in found] == [missing]
    assert "is missing" in found[0].problem


def test_the_empty_mapping():
    assert [issue.field for issue in issues({})] == ["model", "cluster", "training"]


def test_nan_in_a_python_mapping():
    data = {"model": "gpt2", "cluster": {"topology": "dgx-a100", "gpus": math.nan}, "training": {"sequence_length": 8,
            "micro_batch_size": 1}}  # fmt: skip
    assert "is not a finite number" in str(issues(data)[0])


def test_learned_positions_bound_the_sequence(write):
    texts = [str(issue) for issue in issues(write(("llama-2-7b", "gpt2")))]
    assert any("training.sequence_length = 4096: is longer than the position table" in text for text in texts)
    assert any(":6: " in text for text in texts)


def test_a_users_topology_with_zero_bandwidth_names_its_own_line(write, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "name: mine\n"
        "devices:\n"
        "  gpu: {kind: gpu, count: 2, model: A40}\n"
        "links:\n"
        "  - from: gpu 0\n"
        "    to: gpu 1\n"
        "    type: NVLink3 link (A100)\n"
        "    bandwidth_gb_per_s: 0\n"
    )
    found = issues(write(("dgx-a100", "mine.yaml"), ("gpus: 8", "gpus: 2")))
    assert f"{tmp_path / 'mine.yaml'}:8: links[0].bandwidth_gb_per_s = 0" in str(found[0])


def test_a_users_topology_that_is_no_yaml(write, tmp_path):
    (tmp_path / "mine.yaml").write_text("a: [\n")
    found = issues(write(("dgx-a100", "mine.yaml")))
    assert str(found[0]).startswith(f"{tmp_path / 'mine.yaml'}:")


def test_gpus_that_no_link_connects(write, tmp_path):
    (tmp_path / "mine.yaml").write_text("name: mine\ndevices:\n  gpu: {kind: gpu, count: 2, model: A40}\nlinks: []\n")
    with pytest.raises(ScenarioError, match="gpu"):
        load_cases(write(("dgx-a100", "mine.yaml"), ("gpus: 8", "gpus: 2")))


def test_a_users_model_file_is_named(write, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": "x"}')
    found = issues(write(("llama-2-7b", "config.json")))
    assert all(str(tmp_path / "config.json") in str(issue) for issue in found)
    (tmp_path / "config.json").write_text("[1]")
    assert "holds no JSON object" in str(issues(write(("llama-2-7b", "config.json")))[0])


def test_a_users_model_file_is_named_with_the_line_of_the_field(write, tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "llama",\n "x": {"vocab_size": 1},\n "hidden_size": "x",\n "vocab_size": -1}'
    )
    texts = [str(issue) for issue in issues(write(("llama-2-7b", "config.json")))]
    file = tmp_path / "config.json"
    assert any(text.startswith(f"{file}:3: hidden_size = 'x' must be") for text in texts), texts
    assert any(text.startswith(f"{file}:4: vocab_size = -1 must be") for text in texts), texts
    assert any(text.startswith(f"{file}: num_hidden_layers is missing") for text in texts), texts


def test_what_is_there_but_cannot_be_read_is_called_what_it_is(write, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    for name, words in (
        ("folder", "is a folder"),
        ("loop", "is a symbolic link that leads back to itself"),
        ("dangling", "is a symbolic link to nothing"),
    ):
        (issue,) = issues(str(tmp_path / name))
        assert issue.problem == words
        assert f"model = {name}: {words}" in str(issues(write(("llama-2-7b", name)))[0])
        assert f"cluster.topology = {name}: {words}" in str(issues(write(("dgx-a100", name)))[0])
    assert "is a folder without a config.json" in str(issues(write(("llama-2-7b", "./")))[0])
    (issue,) = issues("")
    assert issue.problem == "the scenario's name is empty"


@pytest.mark.parametrize(
    ("topology", "precision", "refused"),
    [
        ("dgx-1v", "bf16", "V100-SXM2-32GB (Volta) has no bf16 arithmetic; allowed: fp16, fp32; fix: set training.pr"),
        ("dgx-1v", None, "is bf16 when left out: V100-SXM2-32GB (Volta) has no bf16 arithmetic"),
        ("dgx-1v", "tf32", "V100-SXM2-32GB (Volta) has no tf32 arithmetic; allowed: fp16, fp32"),
        ("dgx-1v", "fp16", None),
        ("dgx-1v", "fp32", None),
        ("dgx-a100", "bf16", None),
        ("dgx-a100", "tf32", None),
    ],
)
def test_arithmetic_that_the_gpus_lack(write, topology, precision, refused):
    path = write(("dgx-a100", topology), ("micro_batch_size: 1", f"micro_batch_size: 1\n  precision: {precision}"))
    if precision is None:
        path = write(("dgx-a100", topology))
    if refused is None:
        assert load_cases(path)
    else:
        (issue,) = issues(path)
        assert issue.field == "training.precision"
        assert refused in str(issue)
        assert issue.fix == "set training.precision to fp16"


def test_a_synthetic_model_has_no_arithmetic_to_refuse(write):
    path = write(
        ("llama-2-7b", "{stages: 8, forward_ns: 1, backward_ns: 1}"), ("dgx-a100", "dgx-1v"), ("tp: 2", "tp: 1")
    )
    assert load_cases(path)


@pytest.mark.parametrize(
    ("override", "allowed"),
    [
        ("parallel.tp=3", "1, 2, 4, 8"),  # 32 heads, 8 key/value heads, 14336 columns, 8 GPUs
        ("parallel.tp=32", "parallel.tp one of 1, 2, 4, 8"),
        ("parallel.pp=3", "1, 2, 4, 8"),  # 32 layers, 8 GPUs
        ("parallel.pp=32", "parallel.pp one of 1, 2, 4, 8"),
    ],
)
def test_one_list_says_which_degrees_fit_everything(write, override, allowed):
    (issue,) = issues(write(("llama-2-7b", "llama-3-8b"), ("  tp: 2", "  tp: 1")), overrides=[override])
    assert issue.allowed == allowed


@pytest.mark.parametrize("pp", [3, 6])
def test_uneven_stages_are_offered_with_the_gpus_that_they_need(write, pp):
    (issue,) = issues(write(("gpus: 8", "gpus: 6"), ("tp: 2", f"pp: {pp}"), ("size: 64", "size: 96")))
    assert issue.allowed == "1, 2"
    assert "choose one of these, or write parallel.layers_per_stage: [" in issue.fix
    (issue,) = issues(write(("tp: 2", f"pp: {pp}")))
    assert f"or take a multiple of {pp} GPUs and write parallel.layers_per_stage: [" in issue.fix


def test_a_scenario_that_is_not_there_lists_near_names(tmp_path):
    (issue,) = issues("four_vs_nine")
    assert "four_vs_eight" in str(issue.fix)
    assert "pipeline_bubble" in str(issue.allowed)
    (tmp_path / "my_case.yaml").write_text("a: 1")
    (issue,) = issues(str(tmp_path / "my_cse.yaml"))
    assert issue.fix == f"did you mean {tmp_path / 'my_case.yaml'}?"
    (issue,) = issues(str(tmp_path))
    assert "is a folder" in issue.problem


@pytest.mark.parametrize(
    ("variants", "words"),
    [
        ("[]", "variants = []: is an empty list"),
        ("3", "variants = 3: is not a list"),
        ("[3]", "variants[0] = 3: is not a mapping"),
        ("[{set: {cluster.gpus: 4}}]", "variants[0].name: is missing"),
        ("[{name: 4}]", "variants[0].name = 4: is not text"),
        ("[{name: a}, {name: a}]", "variants[1].name = a: is the name of variant 1 as well"),
        (
            "[{name: a, sets: {}}]",
            "variants[0].sets = {}: is not a field of SimGPU; fix: did you mean variants[0].set?",
        ),
        (
            "[{name: a, set: {cluster.gpu: 4}}]",
            "cluster.gpu = 4: is not a field of SimGPU; fix: did you mean cluster.gpus",
        ),
        ("[{name: a, set: {variants: 4}}]", "variants: is no field that can be set"),
        ("[{name: a, set: {a..b: 4}}]", "a..b: is no field that can be set"),
        (
            "[{name: a, set: {cluster.gpus: 4, cluster: {topology: dgx-h100, gpus: 2}}}]",
            "cluster.gpus = 4: is set beside cluster, which replaces the whole block",
        ),
        (
            "[{name: a, set: {cluster: {topology: dgx-h100, gpus: 2}, cluster.gpus: 4}}]",
            "cluster.gpus = 4: is set beside cluster, which replaces the whole block",
        ),
        ("[{name: a, set: {cluster.topology.gpus: 4}}]", "cluster.topology is dgx-a100, which has no fields"),
        ("[{name: a, set: {parallel.tp: 3}}, {name: b}]", "parallel.tp = 3: in variant 'a': does not divide"),
    ],
)
def test_variants(write, variants, words):
    path = write(add=f"variants: {variants}\n")
    texts = [str(issue) for issue in issues(path)]
    assert any(words in text for text in texts), texts
    assert all(text.startswith(f"{path}:{LINE['added']}: ") for text in texts)


def test_what_all_variants_share_is_said_once(write):
    path = write(("tp: 2", "tp: 3"), add="variants: [{name: a}, {name: b, set: {training.recompute: full}}]\n")
    texts = [str(issue) for issue in issues(path)]
    assert len([text for text in texts if "attention heads" in text]) == 1
    assert not any("in variant" in text for text in texts if "attention heads" in text)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("cluster.gpus", "--set: cluster.gpus: has no '='"),
        ("cluster.gpuz=4", "--set: cluster.gpuz = 4: is not a field of SimGPU; fix: did you mean cluster.gpus?"),
        ("cluster.gpus=[", "--set: cluster.gpus = [: is not valid YAML"),
        ("=4", "--set: '': is no field that can be set"),
        ("cluster.topology.gpus=4", "--set: cluster.topology.gpus = 4: cannot be set: cluster.topology is dgx-a100"),
        ("parallel.tp=3", "--set: parallel.tp = 3: does not divide the 32 attention heads"),
        ("variants=[]", "--set: variants: is no field that can be set: variants belongs in a file"),
        ("cluster.topology.gpus={a: 1}", '--set: cluster.topology.gpus = {"a": 1}: cannot be set'),
    ],
)
def test_overrides(write, override, words):
    assert any(words in str(issue) for issue in issues(write(), overrides=[override]))


def test_the_message_does_not_depend_on_the_run(write):
    path = write(("tp: 2", "tq: 3"), ("dgx-a100", "dgx"), add="variants: [{name: a}, {name: b}]\n")
    assert issues(path) == issues(path)
    with pytest.raises(ScenarioError):
        load_scenario(path)


@pytest.mark.parametrize(
    ("add", "words"),
    [
        ("  cp: 3\n", "does not divide the 8 GPUs; allowed: parallel.cp one of 1, 2, 4"),
        ("  cp: 2\n  data_parallel: none\n", "leaves dp x cp = 4 copies of the model"),
        ("  cp: 2\n  cp_comm_type: ring\n", "allowed: p2p, a2a, all_gather"),
        ("  cp: 2\n  order: [pp, dp, tp]\n", "leaves out cp; allowed: pp, dp, cp and tp in some order"),
        ("  ep: 2\n", "means nothing to llama-2-7b, which has no experts"),
        ("  expert_tp: 1\n", "means nothing to llama-2-7b, which has no experts"),
    ],
)
def test_context_and_expert_degrees_that_do_not_fit(write, add, words):
    texts = [str(issue) for issue in issues(write(add=add))]
    assert any(words in text for text in texts), texts
