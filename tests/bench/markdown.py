"""A chapter of docs/benchmarks.md, made of what the benchmarks write with --json.

    sh tests/bench/run.sh --json bench.json       (or tests/gpu.sh, whose RESULTS have one)
    python3 tests/bench/markdown.py bench.json 'NVIDIA H200, driver 580.159' >>docs/benchmarks.md

The heading names the machine. A row that WHAT does not know is given by its name alone.
"""
import json
import sys

# name: what is measured, the other side
WHAT = {
    "cpu.replay_1000": ("a bound queue of 1000 kernels, each", "loop of indirect calls"),
    "cpu.replay_1000_tbb": ("the same", "oneTBB lightweight flow graph"),
    "cpu.replay_1000_pocl": ("a bound queue of 1000 kernels, each", "PoCL command buffer"),
    "cpu.submit_call": ("the call", "a push into a ring of two threads"),
    "cpu.roundtrip_spin": ("submit, run, host sees it", "two-thread spinning ring"),
    "cpu.roundtrip_sleep": ("the same on one CPU, asleep", "futex ping-pong"),
    "cpu.wake_same_cpu": ("two threads on one CPU, by signals", "futex ping-pong"),
    "cpu.wake_same_cpu_lane": ("the same by a lane's epochs", "futex ping-pong"),
    "cpu.submit_and_wait": ("in one call", "submit, then wait"),
    "cpu.signal_set_no_waiter": ("", "store under a mutex"),
    "cpu.wait_reached": ("", "load under a mutex"),
    "cpu.parked_one_set": ("10,000 held, one set, each", "itself with 100 held"),
    "cpu.parked_many_sets": ("10,000 held, a set for each", "itself with 100 held"),
    "cpu.grid_saxpy_16m": ("", "OpenMP, the better schedule"),
    "cpu.grid_tiny_1m": ("", "OpenMP, the better schedule"),
    "cpu.grid_2_heavy": ("", "OpenMP, the better schedule"),
    "cpu.grid_uneven": ("", "OpenMP, the better schedule"),
    "cpu.busy_saxpy": ("beside 8 busy threads", "OpenMP, passive waits"),
    "cpu.busy_uneven": ("beside 8 busy threads", "OpenMP, passive waits"),
    "cpu.copy_256m": ("", "memcpy"),
    "cpu.copyin_256m": ("", "memcpy"),
    "cpu.update_exec": ("another grid", ""),
    "cpu.record_exec": ("in a queue that is reset", ""),
    "core.stall_us": ("99.9 % of sets beside long calls, above a quiet run", ""),
    "graph.replay_1000": ("a bound graph of 1000 kernels, each", "loop of indirect calls"),
    "graph.replay_1000_tbb": ("the same", "oneTBB lightweight flow graph"),
    "graph.patch_1_of_1000": ("a launch with one change", "itself with none"),
    "graph.patch_100_of_1000": ("a launch with 100 changes", "itself with none"),
    "graph.replay_two_devices": ("1000 kernels, 100 crossings, each",
                                 "queues and signals by hand"),
    "profile.off": ("it ran once and is off", "a device that never started it"),
    "profile.on": ("", "a device that never started it"),
    "kernel.saxpy": ("of hcq_kernel.h, the worst of three compilers", "loops by hand"),
    "kernel.blur": ("the same", "loops by hand"),
    "kernel.matmul": ("the same", "loops by hand"),
    "kernel.reduce": ("the same", "loops by hand"),
    "kernel.vulkan_saxpy": ("of hcq_kernel.h", "a shader by hand"),
    "kernel.vulkan_blur": ("the same", "a shader by hand"),
    "kernel.vulkan_matmul": ("the same", "a shader by hand"),
    "kernel.vulkan_reduce": ("the same", "a shader by hand"),
    "check.replay_1000": ("a checked device, each", "the same, not checked"),
    "vulkan.replay_1000": ("a bound queue of 1000 dispatches, each", "raw command buffer"),
    "vulkan.replay_1": ("submitted and waited for", "raw command buffer"),
    "vulkan.submit_call": ("in a burst", "raw vkQueueSubmit2"),
    "vulkan.graph_1000_alternating": ("copy, exec, copy ... each", "raw command buffer"),
    "vulkan.patch_grid": ("nothing is recorded", "recording it again, each"),
    "vulkan.patch_arg": ("nothing is recorded", "recording it again, each"),
    "vulkan.record_dispatch": ("record and bind one version", "raw recording"),
    "vulkan.copy_256m": ("", "raw vkCmdCopyBuffer"),
    "cuda.replay_1000": ("a bound queue of 1000 kernels, each", "cuGraphLaunch"),
    "cuda.replay_1": ("submitted and waited for", "cuGraphLaunch, cuStreamSynchronize"),
    "cuda.eager_exec": ("1000 recorded and submitted, each", "cuLaunchKernel"),
    "cuda.submit_one": ("one bound kernel, the call", "cuLaunchKernel, cuEventRecord"),
    "cuda.cross_stream_wait": ("from lane to lane", "cuStreamWaitEvent, launch, record"),
    "cuda.copyin_1g": ("1 GiB of pinned memory", "cuMemcpyAsync"),
    "cuda.copyout_1g": ("1 GiB of pinned memory", "cuMemcpyAsync"),
    "cuda.wait_50us": ("of a kernel that long", "cuStreamSynchronize"),
    "cuda.wait_100us": ("of a kernel that long", "cuStreamSynchronize"),
    "cuda.wait_200us": ("of a kernel that long", "cuStreamSynchronize"),
}
UP = {"ns": "us", "us": "ms", "ms": "s"}


def number(value, unit):
    """Three digits, in the unit in which they are read best."""
    if value is None:
        return ""
    unit = unit.split("/")[0]
    while unit in UP and value >= 1000:
        value, unit = value / 1000, UP[unit]
    return f"{float(f'{value:.3g}'):g} {unit}"


def row(result):
    name, unit = result["name"], result["unit"]
    what, peer = WHAT.get(name, ("", ""))
    goal, ratio = result.get("goal"), result.get("ratio")
    cells = [f"`{name}`" + (f": {what}" if what else ""), number(result.get("ours"), unit),
             f"{peer} {number(result.get('peer'), unit)}".strip(),
             "" if ratio is None else f"{ratio:.2g}" if ratio < 0.1 else f"{ratio:.2f}",
             "" if goal is None else f"{goal:.3g}"]
    if ratio is not None and goal is not None and ratio > goal:
        cells[4] += ", missed"
    return "| " + " | ".join(cells) + " |"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        results = json.load(file)
    print(f"\n## {sys.argv[2]}\n")
    print("| name | hcq | the other side | ratio | goal |\n|---|---|---|---|---|")
    for result in results:             # facts have no unit, what failed has no figure
        if result["unit"] and result.get("ours") is not None:
            print(row(result))


if __name__ == "__main__":
    main()
