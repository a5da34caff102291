"""Start-up of the command line: seconds and multiples of a bare Python start, medians of interleaved runs."""

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "simgpu --help": ["-m", "simgpu", "--help"],
    "simgpu ops four_vs_eight": ["-m", "simgpu", "ops", "four_vs_eight"],
    "simgpu ops llama-3-8b, H100": [
        "-m",
        "simgpu",
        "ops",
        "four_vs_eight",
        "--set",
        "model=llama-3-8b",
        "--set",
        "cluster.topology=dgx-h100",
    ],
    "simgpu ops --gemm": ["-m", "simgpu", "ops", "--gpu", "h100-sxm-80gb", "--gemm", "8192,8192,8192"],
    "simgpu run four_vs_eight": ["-m", "simgpu", "run", "four_vs_eight", "--html", "/dev/null"],
}
ROUNDS = 5


def main():
    times = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, arguments in COMMANDS.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
            times[name].append(time.perf_counter() - begin)
    bare = statistics.median(times["python -c pass"])
    print(f"{'command':28} {'median s':>9} {'x bare':>7}")
    for name, values in times.items():
        print(f"{name:28} {statistics.median(values):9.3f} {statistics.median(values) / bare:7.1f}")


if __name__ == "__main__":
    main()
