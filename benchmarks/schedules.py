"""Check every pipeline schedule up to P ranks, V stages a rank and M microbatches, and count them."""

import argparse
import time
from collections import Counter

from simgpu.parallel.schedule_check import check_schedule
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, build_schedule, refusal


def sweep(name: str, ranks: int, virtual: int, microbatches: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for p in range(1, ranks + 1):
        for v in range(1, virtual + 1):
            for m in range(1, microbatches + 1):
                if refusal(name, ranks=p, virtual=v, microbatches=m):
                    found["refused"] += 1
                    continue
                faults = check_schedule(build_schedule(name, ranks=p, virtual=v, microbatches=m))
                found["faulty" if faults else "sound"] += 1
                if faults:
                    print(f"{name} p={p} v={v} m={m}: {faults[0]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PIPELINE_SCHEDULES))
    for option, value in (("--ranks", 16), ("--virtual", 4), ("--microbatches", 64)):
        parser.add_argument(option, type=int, default=value)
    options = parser.parse_args()
    for name in options.names:
        start = time.perf_counter()
        found = sweep(name, options.ranks, options.virtual, options.microbatches)
        print(f"{name}: {dict(found)} in {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
