from pathlib import Path

import pytest

from simgpu.config.load import load_cases
from simgpu.config.op_request import parse_attention, parse_gemm
from simgpu.config.op_table import read_op_table, scenario_table
from simgpu.dtypes import DType
from simgpu.errors import ScenarioError
from simgpu.hardware.gpu import gpu
from simgpu.pricing.layers import price_layer
from simgpu.workload.op import Attention, Gemm, GroupedGemm, MemoryBound

H100 = gpu("H100-SXM5-80GB")
HEADER = "kind,op,m,n,k,sequence,heads,head_dim,kv_heads,batch,causal,backward,bytes,dtype,gpu,time_us,model_us\n"


@pytest.fixture
def table(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "t.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_rows_of_the_own_format(table):
    path = table(
        "kind,op,m,n,k,batch,sequence,heads,kv_heads,head_dim,backward,bytes,pattern,kernels,layout,dtype,gpu,time_us\n"
        "gemm,a,8,16,32,,,,,,,,,,nt,fp16,h100-sxm-80gb,5\n"
        "attention,b,,,,2,64,8,2,128,yes,,,,,,H100-SXM5-80GB,6\n"
        "memory_bound,c,,,,,,,,,,4096,norm,2,,,H100-SXM5-80GB,7.5\n"
    )
    rows = read_op_table(path).rows
    assert [(row.gpu, row.group, row.time_ns) for row in rows] == [
        (H100, "gemm", 5e3),
        (H100, "attention.backward", 6e3),
        (H100, "memory_bound", 7.5e3),
    ]
    assert [row.ops[0] for row in rows] == [
        Gemm(name="a", m=8, n=16, k=32, layout="nt", dtype=DType.FP16),
        Attention(name="b", batch=2, sequence=64, heads=8, kv_heads=2, head_dim=128, backward=True, kernel="flash-2"),
        MemoryBound(name="c", bytes=4096, pattern="norm", kernels=2),
    ]


def test_rows_that_were_not_filled_in_and_rows_of_other_devices_are_left_to_the_model(table):
    path = table(
        "kind,m,n,k,gpu,time_us,model_us\n"
        "gemm,8,8,8,,5,6\n"
        "gemm,64,8,8,,6,6.0\n"  # still the model's own
        "gemm,512,8,8,,,6\n"
        "gemm,4096,8,8,a100-sxm4-80gb,7,6\n"
        "gemm,32768,8,8,H100-SXM5-80GB,7,6\n"
    )
    measured = scenario_table(path, "t.csv", H100)
    found = {m: measured.time(Gemm(name="", m=m, n=8, k=8)) for m in (8, 64, 512, 4096, 32768)}
    assert {m: time.how for m, time in found.items() if time} == {8: "exact", 32768: "exact"}
    skipped = read_op_table(path).skipped
    assert [(one.id, one.reason) for one in skipped].count((str(path), "time is not filled in")) == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("gem,,8,8,8,,,,,,,,,,,5,", "t.csv:2: kind = gem: is no kind of op; allowed: gemm, grouped_gemm, attention"),
        (",,8,8,8,,,,,,,,,,,5,", "t.csv:2: kind: is missing; allowed: gemm"),
        ("gemm,,8,8,,,,,,,,,,,,5,", "t.csv:2: k: is missing: a gemm row needs it"),
        ("gemm,,8,8,0,,,,,,,,,,,5,", "t.csv:2: k = 0: is no such number; allowed: a whole number from 1"),
        ("gemm,,8,8,8.5,,,,,,,,,,,5,", "t.csv:2: k = 8.5: is no such number"),
        (f"gemm,,8,8,{'9' * 5000},,,,,,,,,,,5,", "is no such number"),
        ("gemm,,8,8,8,,,,,,,,,,,fast,", "t.csv:2: time_us = fast: is no number above 0; allowed: a number above 0"),
        ("gemm,,8,8,8,,,,,,,,,,,nan,", "t.csv:2: time_us = nan: is no number above 0"),
        ("gemm,,8,8,8,,,,,,,,,,,-1,", "t.csv:2: time_us = -1: is no number above 0"),
        ("gemm,,8,8,8,,,,,,,,,int8,,5,", "t.csv:2: dtype = int8: is none of the words known here; allowed: fp32"),
        ("gemm,,8,8,8,,,,,,,,,,h100,5,", "t.csv:2: gpu = h100: may be several GPUs; fix: name one: H100-SXM5-80GB"),
        ("gemm,,8,8,8,,,,,,,,,,tpu,5,", "t.csv:2: gpu = tpu: is no GPU that SimGPU knows"),
        ("attention,,,,,64,8,128,8,1,maybe,,,,,5,", "t.csv:2: causal = maybe: is neither yes nor no; allowed: yes, no"),
        ("memory_bound,,,,,,,,,,,,,,,5,", "t.csv:2: bytes: is missing: a memory_bound row needs it"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_column_value_and_what_is_allowed(table, row, message):
    path = table(HEADER + row + "\n")
    for read in (read_op_table, lambda p: scenario_table(p, "t.csv", H100)):
        with pytest.raises(ScenarioError) as error:
            read(path)
        assert message in str(error.value)
        assert len(error.value.issues) == 1


def test_a_published_format_is_no_table_of_costs(table):
    with pytest.raises(ScenarioError, match="is a table in the gemm format, which names no kinds of ops"):
        scenario_table(table("gpu,dtype,m,n,k,time_us\nB200,bf16,8,8,8,1\n"), "t.csv", H100)


def published(table, text):
    return read_op_table(table(text))


def test_gemm_tables(table):
    found = published(
        table,
        "id,gpu,dtype,m,n,k,time_us,tflops,notes\n"
        "a,H100 80GB HBM3,bf16,8,16,32,5,,\n"
        "b,H800 SXM5,fp8 e4m3,1000,1000,1000,,2,\n"  # 2e9 FLOPs at 2 TFLOP/s: 1 ms
        'c,H800 SXM5,fp8 grouped,8,16,32,5,,"4 groups, m per group (masked layout)"\n'
        'd,H800 SXM5,fp16,8,16,32,5,,"batched, batch 3"\n'
        "e,A100 (implied),bf16,8,8,8,5,,\n"
        "f,Gaudi 2,bf16,8,8,8,5,,\n"
        "g,H800 SXM5,int8,8,8,8,5,,\n"
        "h,H800 SXM5,bf16,,8,8,5,,\n"
        "i,H800 SXM5,bf16,8,8,8,,,\n",
    )
    assert [(row.group, row.time_ns, row.ops[0]) for row in found.rows] == [
        ("gemm", 5e3, Gemm(name="a", m=8, n=16, k=32)),
        ("gemm.fp8", pytest.approx(1e6), Gemm(name="b", m=1000, n=1000, k=1000, dtype=DType.FP8)),
        (
            "grouped_gemm.fp8",
            5e3,
            GroupedGemm(name="c", groups=4, rows=32, n=16, k=32, busiest=8, dtype=DType.FP8),
        ),
        ("gemm", 5e3, Gemm(name="d", m=8, n=16, k=32, batch=3, dtype=DType.FP16)),
    ]
    assert [one.reason for one in found.skipped] == [
        "gpu is unstated: 'A100 (implied)'",
        "gpu is not in simgpu/data/gpus.csv: 'Gaudi 2'",
        "number format is not modelled: int8",
        "shape is unstated: m, n or k is missing",
        "time and rate are unstated",
    ]


def test_a_gemm_tables_batch_layout_and_sum_count(table):
    found = published(
        table,
        "gpu,dtype,m,n,k,batch,layout,accumulate_bytes,time_us,node,notes\n"
        "B200,bf16,8,16,32,16,NT,4,5,n1,\n"
        "B200,bf16,8,16,32,,,,5,n1,\n"
        'B200,bf16,8,16,32,4,,,5,n1,"batched, batch 3"\n'
        'B200,fp8 grouped,8,16,32,4,,,5,n1,"2 groups, m per group"\n'
        ",bf16,8,16,32,4,,,5,n1,\n"
        "B200,,8,16,32,4,,,5,n1,\n",
    )
    assert [row.ops[0] for row in found.rows] == [
        Gemm(name="B200 (t.csv:2)", m=8, n=16, k=32, batch=16, layout="nt", accumulate_bytes=4),
        Gemm(name="B200 (t.csv:3)", m=8, n=16, k=32),
    ]
    assert [(one.id, one.reason) for one in found.skipped] == [
        ("B200 (t.csv:4)", "batch is said twice: 3 and 4"),
        ("B200 (t.csv:5)", "batch and groups are both stated"),
        ("t.csv:6", "gpu is unstated: ''"),
        ("B200 (t.csv:7)", "number format is unstated: dtype"),
    ]
    assert found.unread == ("node",)


def test_a_row_whose_shape_stands_in_a_column_that_is_not_read_is_set_aside(table):
    found = published(table, "gpu,dtype,m,n,k,time_us,window,causal\nB200,bf16,8,16,32,5,512,\nB200,bf16,8,16,32,5,,\n")
    assert [one.reason for one in found.skipped] == ["column is not read in the gemm format: window"]
    assert len(found.rows) == 1
    with pytest.raises(ScenarioError, match="layout = row: is none of the words known here; allowed: tn, nn, nt"):
        published(table, "gpu,dtype,m,n,k,time_us,layout\nB200,bf16,8,16,32,5,row\n")


def test_an_attention_tables_own_batch_and_heads(table):
    (row,) = published(
        table,
        "id,gpu,dtype,pass,impl,causal,head_dim,seq,tflops,batch,heads,kv_heads\n"
        "a,A100-SXM4-80GB,bf16,fwd,FlashAttention-2,y,128,4096,180,2,32,8\n",
    ).rows
    assert (row.ops[0].batch, row.ops[0].heads, row.ops[0].kv_heads) == (2, 32, 8)


ATTENTION = {"batch": 1, "sequence": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}


def test_a_row_without_a_kernel_is_for_every_kernel(table):
    columns = ",".join(("kind", *ATTENTION, "kernel", "time_us"))
    sizes = ",".join(map(str, ATTENTION.values()))
    measured = scenario_table(table(f"{columns}\nattention,{sizes},,500\nattention,{sizes},cuDNN,400\n"), "t.csv", H100)
    found = {name: measured.time(Attention(name="", **ATTENTION, kernel=name)) for name in ("flash-2", "cudnn")}
    assert {name: round(time.time_ns) for name, time in found.items()} == {"flash-2": 500_000, "cudnn": 400_000}
    # B200 has cuDNN's kernel alone, and runs that whatever the software asks for
    b200 = scenario_table(table(f"{columns}\nattention,{sizes},cudnn,400\n"), "t.csv", gpu("B200-SXM-180GB"))
    assert b200.time(Attention(name="", **ATTENTION, kernel="flash-2")).how == "exact"


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("kernel", "flash-9", "t.csv:2: kernel = flash-9: is none of the words known here; allowed: flash-2, flash-1"),
        ("kv_heads", "5", "t.csv:2: kv_heads = 5: does not divide the 32 heads; allowed: a divisor of 32"),
    ],
)
def test_an_attention_that_is_none(table, column, value, message):
    cells = {**ATTENTION, "kernel": "", column: value}
    path = table(f"kind,{','.join(cells)},time_us\nattention,{','.join(map(str, cells.values()))},5\n")
    with pytest.raises(ScenarioError) as error:
        read_op_table(path)
    assert message in str(error.value)


def test_a_window_is_of_causal_attention(table):
    cells = {**ATTENTION, "window": 512, "causal": "no"}
    path = table(f"kind,{','.join(cells)},time_us\nattention,{','.join(map(str, cells.values()))},5\n")
    with pytest.raises(ScenarioError, match="window = 512: is of causal attention only"):
        read_op_table(path)


def test_a_kernel_that_a_device_does_not_have_is_not_compared(table):
    cells = {**ATTENTION, "kernel": "flash-3", "gpu": "A100-SXM4-80GB"}
    found = published(table, f"kind,{','.join(cells)},time_us\nattention,{','.join(map(str, cells.values()))},500\n")
    assert [one.reason for one in found.skipped] == ["kernel is not modelled on A100-SXM4-80GB: flash-3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind,m,n,k,time_us,time_us\ngemm,8,8,8,5,6\n", "t.csv:1: names a column twice: time_us"),
        ("kind;m;n;k;time_us\ngemm;8;8;8;5,5\n", "t.csv:1: separates its columns by semicolons; allowed: comma"),
        ("kind\tm\ttime_us\ngemm\t8\t5\n", "t.csv:1: separates its columns by tabs; allowed: comma-separated"),
    ],
)
def test_a_header_that_cannot_be_meant(table, text, message):
    with pytest.raises(ScenarioError) as error:
        read_op_table(table(text))
    assert message in str(error.value)


def test_efficiency_tables(table):
    (row,) = published(
        table,
        "gpu,op,peak_tflops,efficiency,b,m,k,n,layout,accumulate,out_dtype\n"
        "A100-80GB-PCIe,matmul,312,0.5,1,100,1000,1000,NT,True,fp32\n",
    ).rows
    assert row.ops == (Gemm(name="A100-80GB-PCIe matmul", m=100, n=1000, k=1000, layout="nt", accumulate_bytes=4),)
    assert row.time_ns == pytest.approx(2e8 / 156e3)
    forward, dgrad, wgrad = published(
        table,
        "gpu,op,peak_tflops,efficiency,ng,M,N,K,dtype,main_grad_dtype,stage,accumulate\n"
        + "".join(f"B200-SXM,group_matmul,2250,0.5,4,8,16,32,bf16,fp32,{stage}\n" for stage in (
            "fwd,False", "bwd_grad_act,False", "bwd_grad_w,True"
        )),
    ).rows  # fmt: skip
    assert [(r.ops[0].rows, r.ops[0].n, r.ops[0].k, r.ops[0].layout, r.ops[0].accumulate_bytes) for r in (
        forward, dgrad, wgrad
    )] == [(32, 16, 32, "tn", 0), (32, 32, 16, "nn", 0), (32, 16, 32, "nt", 4)]  # fmt: skip


def test_attention_tables(table):
    forward, backward = published(
        table,
        "gpu,op,peak_tflops,efficiency,batch,seq_len,head_num,kv_head_num,qk_head_dim,v_head_dim\n"
        "B200-SXM,sdp_fwd,2250,0.5,1,1000,8,2,192,128\n"
        "B200-SXM,sdp_bwd,2250,0.5,1,1000,8,2,128,128\n",
    ).rows
    # 2 x 1000^2 x 8 x (192 + 128) FLOPs in full; the kernel is causal
    assert forward.time_ns == pytest.approx(2e6 * 8 * 320 / 1125e3)
    assert (forward.ops[0].causal, forward.ops[0].value_dim, forward.group) == (True, 128, "attention.forward")
    assert backward.time_ns == pytest.approx(2.5 * 2e6 * 8 * 256 / 1125e3)
    assert (backward.ops[0].backward, backward.ops[0].value_dim) == (True, None)
    found = published(
        table,
        "id,gpu,dtype,pass,impl,causal,head_dim,seq,tflops,notes\n"
        + "".join(f'{name},A100-80GB SXM,fp16,{what},64,16384,100,"total tokens 16k per batch, hidden 2048"\n' for (
            name, what
        ) in (("a", "fwd+bwd,FlashAttention-2,y"), ("b", "fwd,xformers,n"), ("c", "fwd,PyTorch,n"))),
    )  # fmt: skip
    both, other = found.rows
    assert [(op.batch, op.heads, op.causal, op.backward, op.kernel) for op in both.ops] == [
        (1, 32, True, False, "flash-2"), (1, 32, True, True, "flash-2")
    ]  # fmt: skip
    assert both.time_ns == pytest.approx(3.5 * 2 * 16384**2 * 2048 / 100e3)
    assert (both.group, other.group) == ("attention.forward+backward", "attention.forward (memory-efficient)")
    assert [one.reason for one in found.skipped] == ["implementation is not modelled on A100-SXM4-80GB: PyTorch"]


def test_layer_tables(table):
    text = (
        "id,model,hidden,heads,seq,vocab,gpu,tp,micro_batch,seq_parallel,recompute,fwd_ms,bwd_ms,precision,notes\n"
        'x,GPT 22B single layer,6144,64,2048,51200,"A100-80GB (8, NVLink3/NVSwitch)",8,4,n,none,8,12,fp16,{}\n'
    )
    (layer,) = published(table, text.format("no flash attention")).layers
    assert (layer.forward_ns, layer.backward_ns) == (8e6, 12e6)
    assert layer.scenario["parallel"] == {"tp": 8, "sequence_parallel": False}
    forward, backward = price_layer(layer)
    assert (forward.group, backward.group) == ("layer.forward", "layer.backward")
    assert 6e6 < forward.predicted_ns < 9e6
    assert 9e6 < backward.predicted_ns < 15e6
    faster = price_layer(layer, rates="peak")
    assert faster[0].predicted_ns < forward.predicted_ns
    assert published(table, text.format("")).skipped[0].reason.startswith("software generation is unstated")


SCENARIO = {
    "model": "gpt2",
    "cluster": {"topology": "dgx-h100", "gpus": 1},
    "training": {"sequence_length": 1024, "micro_batch_size": 1},
}


def test_the_table_is_found_beside_the_scenario_and_named_among_its_files(tmp_path, table):
    table("kind,m,n,k,time_us\ngemm,1024,2304,768,50\n")
    (tmp_path / "s.yaml").write_text(
        "model: gpt2\ncluster: {topology: dgx-h100, gpus: 1}\n"
        "training: {sequence_length: 1024, micro_batch_size: 1}\ncosts: {table: t.csv}\n"
    )
    (case,) = load_cases(tmp_path / "s.yaml")
    assert case.costs.table.name == "t.csv"
    assert case.costs.table.shapes == 1


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"table": "absent.csv"}, "costs.table = absent.csv: there is no file absent.csv; fix: let simgpu ops"),
        ({"table": "."}, "costs.table = .: "),
        ({"rates": "fast"}, "costs.rates = fast"),
        ({"power_cap_w": 0}, "costs.power_cap_w = 0: is zero; allowed: a number of watts above 0"),
        ({"power_cap_w": 701}, "costs.power_cap_w = 701: H100-SXM5-80GB cannot be capped so; allowed: 175 to 700 W"),
        ({"power_cap_w": 500, "rates": "peak"}, "costs.rates = peak: a power cap does nothing to peak rates; allowed:"),
        ({"tables": "x"}, "costs.tables"),
    ],
)
def test_a_wrong_costs_block(costs, message):
    with pytest.raises(ScenarioError) as error:
        load_cases({**SCENARIO, "costs": costs})
    assert message in str(error.value)
    assert len(error.value.issues) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1,2", "has 2 numbers"),
        ("1,2,3,4,5", "has 5 numbers"),
        ("1,,3", "N is missing"),
        ("1,2,0", "K is 0"),
        ("1,2,-3", "K is -3"),
        ("1,2,3e3", "K is 3e3"),
        (f"1,2,{'9' * 5000}", "K is 999"),
        ("1,2,²", "K is ²"),
    ],
)
def test_a_gemm_that_is_none(text, problem):
    with pytest.raises(ScenarioError) as error:
        parse_gemm(text)
    assert problem in str(error.value)
    assert "allowed: M,N,K or M,N,K,BATCH" in str(error.value)


def test_an_attention():
    assert parse_attention("2,64,8,128", dtype="FP16", causal=False, backward=True) == Attention(
        name="attention", batch=2, sequence=64, heads=8, kv_heads=8, head_dim=128, causal=False, backward=True,
        dtype=DType.FP16, kernel="flash-2",
    )  # fmt: skip
    assert parse_attention("2,64,8,128", kernel="CUDNN").kernel == "cudnn"
    with pytest.raises(
        ScenarioError, match="3 key/value heads do not divide the 8 heads; allowed: KV_HEADS of 1, 2, 4"
    ):
        parse_attention("2,64,8,128,3")
