"""simgpu check: a run whose state is known is exported as a trace, and the check has to name that state."""

import json
import re
import shlex
from pathlib import Path

import pytest

from simgpu.checks import check_step, check_traces
from simgpu.config import load_cases
from simgpu.io.kineto_reader import read_kineto
from simgpu.io.training_log import read_training_log
from simgpu.metrics.trace_report import report_traces

LOGS = Path(__file__).parents[3] / "shared" / "inputs" / "training-logs"
BASE = {
    "model": "gpt2",
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "training": {"sequence_length": 1024, "micro_batch_size": 8, "gradient_accumulation": 2},
    "parallel": {"data_parallel": "ddp"},
}


def changed(**blocks):
    merged = {key: {**BASE.get(key, {}), **block} for key, block in blocks.items() if isinstance(block, dict)}
    (case,) = load_cases({**BASE, **blocks, **merged})
    return case


def traced(simgpu, tmp_path, **blocks):
    """Export a case as the profiler would have written it, all ranks, and read it back."""
    merged = {key: {**BASE.get(key, {}), **block} for key, block in blocks.items() if isinstance(block, dict)}
    path = tmp_path / "real.yaml"
    path.write_text(json.dumps({**BASE, **blocks, **merged}))
    folder = tmp_path / "traces"
    outcome = simgpu("export", str(path), "--format", "kineto", "--waits", "--all-ranks", "--out", str(folder))
    assert outcome.code == 0, outcome.err
    return folder, report_traces([read_kineto(file) for file in sorted(folder.iterdir())])


def named(check, op_class=None):
    return [
        found.cause.name for one in check.differences if op_class in (None, one.op_class) for found in one.explained
    ]


def test_the_same_run_agrees(simgpu, tmp_path):
    _, report = traced(simgpu, tmp_path)
    check = check_traces(changed(), report)
    assert abs(check.error) < 1e-3
    assert check.differences == ()


def test_peer_to_peer_off(simgpu, tmp_path):
    _, report = traced(simgpu, tmp_path, network={"nccl": {"p2p_disable": True}})
    check = check_traces(changed(), report)
    assert check.differences[0].op_class in ("exposed", "exposed+wait")
    assert named(check)[0] == "p2p_off"
    assert check.differences[0].explained[0].share == pytest.approx(1.0, abs=0.01)


def test_a_slow_rank_is_named_with_its_factor(simgpu, tmp_path):
    _, report = traced(simgpu, tmp_path, perturb={"slow_ranks": {2: 1.4}})
    check = check_traces(changed(), report)
    assert check.differences[0].op_class == "wait"
    best = check.differences[0].explained[0]
    assert best.cause.name == "slow_rank"
    # the others spin for it, which holds some of their multiprocessors: 1.4 seems a little less beside them
    assert re.match(r"rank 2 computes 1\.(3[2-9]|40) times as long", best.cause.text)


def test_a_slow_host(simgpu, tmp_path):
    small = {"training": {"micro_batch_size": 1, "gradient_accumulation": 2, "sequence_length": 256}}
    _, report = traced(simgpu, tmp_path, software={"host_issue_ns": "50 us"}, **small)
    check = check_traces(changed(**small), report)
    assert check.differences[0].op_class in ("host", "unattributed")
    assert "slow_host" in named(check)


def test_a_wrong_batch(simgpu, tmp_path):
    _, report = traced(simgpu, tmp_path, training={"gradient_accumulation": 4})
    assert named(check_traces(changed(), report), "compute.gemm")[0] == "accumulation_doubled"


def test_a_low_clock_is_told_by_the_same_factor_of_all_kernels(simgpu, tmp_path):
    _, report = traced(simgpu, tmp_path, perturb={"slow_ranks": dict.fromkeys(range(4), 1.3)})
    check = check_traces(changed(), report)
    assert "all kernels take 1.30 times as long" in check.differences[0].hint


def test_a_step_time_alone():
    case = changed()
    plain = check_step(case, 1e9)
    same = check_step(case, plain.predicted_ns)
    assert same.differences == ()
    doubled = changed(training={"gradient_accumulation": 4})
    check = check_step(case, check_step(doubled, 1e9).predicted_ns)
    (difference,) = check.differences
    assert difference.explained[0].cause.name == "accumulation_doubled"
    assert difference.explained[0].share == pytest.approx(1.0)


def test_no_cause_has_another_batch_than_the_log_states():
    case = changed()
    measured_ns = 2 * check_step(case, 1.0).predicted_ns
    assert "accumulation_doubled" in named(check_step(case, measured_ns))
    (difference,) = check_step(case, measured_ns, batch=case.global_batch_size).differences
    assert difference.explained
    assert {one.cause.case.global_batch_size for one in difference.explained} == {case.global_batch_size}


def test_a_batch_that_makes_it_worse_is_no_explanation():
    case = changed()
    predicted_ns = check_step(case, 1.0).predicted_ns
    (difference,) = check_step(case, 1.5 * predicted_ns, batch=case.global_batch_size // 2).differences
    assert difference.explained == ()
    assert "further from the real one, so that something else is wrong too" in difference.hint
    (difference,) = check_step(case, 0.75 * predicted_ns, batch=case.global_batch_size // 2).differences
    assert "further" not in difference.hint


def test_the_command_on_traces(simgpu, tmp_path):
    folder, _ = traced(simgpu, tmp_path, network={"nccl": {"p2p_disable": True}})
    (tmp_path / "plan.yaml").write_text(json.dumps(BASE))
    outcome = simgpu("check", str(tmp_path / "plan.yaml"), "--trace", str(folder), "--json", "-")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["schema"] == 1
    assert found["differences"][0]["causes"][0]["id"] == "p2p_off"
    assert "slower than predicted" in outcome.err
    assert "via SHM" in outcome.err


@pytest.mark.parametrize(
    ("stated", "share"),
    [(128, "100%"), (32, "100%"), (96, "100%"), (67, None)],  # the scenario has 64; 67 cannot be shared out
)
def test_a_batch_that_the_log_states(simgpu, tmp_path, stated, share):
    (tmp_path / "plan.yaml").write_text(json.dumps(BASE))
    real = changed() if share is None else changed(training={"gradient_accumulation": stated // 32})
    step_ms = check_step(real, 1.0).predicted_ns / 1e6
    line = f" iteration 7/ 500 | elapsed time per iteration (ms): {step_ms} | global batch size:   {stated} |\n"
    (tmp_path / "train.log").write_text(line * 5)
    outcome = simgpu("check", "plan.yaml", "--log", "train.log", "--json", "-")
    (difference,) = json.loads(outcome.out)["differences"]
    told = f"wrong batch: the real run states a global batch size of {stated}, the scenario has 64"
    if share is None:
        assert difference["causes"] == []
        assert told in difference["hint"]
    else:
        (cause,) = difference["causes"]
        assert (cause["id"], f"{cause['share']:.0%}") == ("wrong_batch", share)
        assert told in cause["text"]
    shown = simgpu("check", "plan.yaml", "--log", "train.log").out
    assert told in " ".join(shown.split())
    assert "computes" not in shown


def test_the_batch_that_the_scenario_has_is_no_cause(simgpu, tmp_path):
    (tmp_path / "plan.yaml").write_text(json.dumps(BASE))
    slow_ms = 2 * check_step(changed(), 1.0).predicted_ns / 1e6
    (tmp_path / "train.log").write_text(
        f"elapsed time per iteration (ms): {slow_ms} | global batch size:    64 |\nGlobal batch size: 1.0M\n" * 3
    )
    outcome = simgpu("check", "plan.yaml", "--log", "train.log", "--json", "-")
    assert "wrong batch" not in outcome.out


def test_the_command_on_a_log(simgpu, tmp_path):
    (tmp_path / "plan.yaml").write_text(json.dumps(BASE))
    log = tmp_path / "train.log"
    log.write_text("".join(f"iteration {i} | elapsed time per iteration (ms): {900 + i} |\n" for i in range(10)))
    outcome = simgpu("check", str(tmp_path / "plan.yaml"), "--log", str(log))
    assert outcome.code == 0, outcome.err
    assert "measured 905 ms" in outcome.out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "either --trace PATH or --log FILE"),
        (["--trace", "a", "--log", "b"], "--trace and --log are both given"),
        (["--log", "absent.log"], "cannot be read"),
        (["--log", "plan.yaml"], "does not say how long a step takes"),
        (["--trace", "absent"], "is not there"),
        (["--log", "plan.yaml", "--step", "3"], "--step belongs to --trace"),
    ],
)
def test_refusals(simgpu, tmp_path, monkeypatch, options, told):
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(json.dumps(BASE))
    outcome = simgpu("check", "plan.yaml", *options)
    assert outcome.code == 2
    assert told in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("text", "quantity", "value"),
    [
        ("iteration 1 | elapsed time per iteration (ms): 1381.7 |\n", "step_s", 1.3817),
        ("steps: 10 loss: 3.1 iter time (s): 0.512 samples/sec: 62.5\n", "step_s", 0.512),
        (
            "[2023] [INFO] epoch=0/step=10, RunningAvgSamplesPerSec=41.2, CurrSamplesPerSec=41.0\n",
            "samples_per_s",
            41.0,
        ),
        ("step: 10 loss: 7.0 memory: 30GiB tps: 5,432 mfu: 40%\n", "tokens_per_s_per_gpu", 5432.0),
        (" 10%|# | 10/100 [00:26<03:54,  2.60s/it]\n", "step_s", 2.6),
        (" 10%|# | 10/100 [00:26<03:54,  4.00it/s]\n", "step_s", 0.25),
        ("(Measured on 100 steps) Step time Avg : 2.6 s\n", "step_s", 2.6),
    ],
)
def test_forms_of_logs(tmp_path, text, quantity, value):
    path = tmp_path / "x.log"
    path.write_text(text)
    found = read_training_log(path)
    assert (found.quantity, found.value) == (quantity, pytest.approx(value))


def test_the_warm_up_does_not_count(tmp_path):
    path = tmp_path / "x.log"
    times = [9000.0] + [1000.0] * 9
    path.write_text("".join(f"elapsed time per iteration (ms): {time} |\n" for time in times))
    found = read_training_log(path)
    assert (found.value, found.count) == (1.0, 9)


@pytest.mark.skipif(not LOGS.is_dir(), reason="the collected logs are not here")
@pytest.mark.parametrize(
    ("name", "step_s"),
    [
        ("megatron-gpt2-n4-tp4-pp4.log.gz", 1.3806),
        ("megatron-gpt2-n32-tp4-pp32.log.gz", 4.2138),
        ("jeanzay-FSDP_sAC_h100_72B_1691389.log", 21.9546),
    ],
)
def test_real_logs(name, step_s):
    assert read_training_log(LOGS / name).value == pytest.approx(step_s, rel=1e-4)


def test_the_commands_of_the_page(simgpu, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text("elapsed time per iteration (ms): 1500.0 |\n")
    block = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0]
    for command in block.splitlines():
        outcome = simgpu(*shlex.split(command)[1:])
        assert outcome.code == 0, outcome.err
