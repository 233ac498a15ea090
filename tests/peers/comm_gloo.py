"""comm_gloo.py - PyTorch's Gloo collectives on the vectors of bench_comm: comm_gloo.py SMALLEST LARGEST, with RANK etc. set.

Prints "OPERATION BYTES SECONDS": the slowest rank's time, the median over repetitions. What this version of Gloo does
not offer is left out. Ranks are not pinned: Gloo moves bytes in a thread of its own, and is slower sharing one core
with it."""
import statistics
import sys
import time

import torch
import torch.distributed as dist

smallest, largest = (int(word) for word in sys.argv[1:3])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def measure(vector, run, repetitions):
    times = []
    for i in range(-2, repetitions):
        vector.zero_()  # each rank has just written its own vector
        dist.barrier()
        begun = time.perf_counter()
        run()
        took = torch.tensor([time.perf_counter() - begun], dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        if i >= 0:
            times.append(took.item())
    return statistics.median(times)


a, b = torch.zeros(largest // 4), torch.zeros(largest // 4)
size_bytes = 1024
while size_bytes < smallest:
    size_bytes *= 4
while size_bytes <= largest:
    count = size_bytes // 4
    part = count // size
    repetitions = max(5, min(50, (64 << 20) // size_bytes))  # fewer than the others make: it is the slowest by far
    operations = {
        "all_reduce": lambda: dist.all_reduce(a[:count]),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(b[:part], a[: part * size]),
        "all_gather": lambda: dist.all_gather_into_tensor(b[: part * size], a[:part]),
    }
    for name, run in operations.items():
        try:
            seconds = measure(a[:count], run, repetitions)
        except (RuntimeError, ValueError):
            continue
        if rank == 0:
            print(f"{name} {size_bytes} {seconds:.9f}", flush=True)
    size_bytes *= 4
dist.destroy_process_group()
