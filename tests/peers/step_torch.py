"""step_torch.py - the speed of PyTorch on the training step that bench_step measures on a CPU.

usage: python tests/peers/step_torch.py [--model gpt2|byte|llama-125m|llama-long] [--dtype fp32|bf16] [--pure]
           [--batch 4] [--seq 256] [--ranks 1] [--threads 2] [--accumulation 1] [--allocator default|tuned] [--compile]
           [--optimizer fused|foreach|loop] [--steps 7] [--seconds 120]

The models are those of step_models.py. A step takes --batch sequences over all ranks, --accumulation times: random
tokens, AdamW, clipping to norm 1.0, set_to_none; bf16 is autocast, with
--pure the parameters are bf16 and there are no fp32 copies. With --ranks 2 and more: DistributedDataParallel
over Gloo, each rank on cores of its own. `tuned` starts the interpreter again with huge pages and no trimming in glibc's
malloc. Warming up ends after half of --seconds at the latest, measuring after --steps steps or --seconds; one step at
least is measured. Prints one line; the speed is that of the median step, CPU seconds are those of all ranks, memory is
the greatest resident set of a rank:

    peer torch dtype=bf16 batch=4 seq=256 ranks=1 threads=2 tokens_per_s=512.3 cpu_ms_per_token=3.9 peak_mb=2700 ...
"""
import argparse
import contextlib
import os
import resource
import statistics
import sys
import time

from step_models import MODELS, groups_of, model_of, start_ranks, tune_allocator, vocabulary_of


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--pure", action="store_true")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--allocator", choices=("default", "tuned"), default="default")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--optimizer", choices=("fused", "foreach", "loop"), default="fused")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--vocabulary", type=int, help="instead of the model's own")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120)
    chosen = parser.parse_args()
    chosen.vocabulary = chosen.vocabulary or vocabulary_of(chosen.model)
    if chosen.batch % chosen.ranks:
        parser.error(f"--batch {chosen.batch} cannot be dealt to {chosen.ranks} ranks evenly")
    if chosen.pure and chosen.dtype != "bf16":
        parser.error("--pure needs --dtype bf16")
    return chosen


def optimizer_of(torch, model, how):
    kind = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[how]
    return torch.optim.AdamW(groups_of(model), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, **kind)


def micro_batch(torch, chosen, trained, tokens, last):
    """Forward and backward; DDP reduces gradients in the last micro-batch of a step only."""
    cast = torch.autocast("cpu", dtype=torch.bfloat16) if chosen.dtype == "bf16" and not chosen.pure else contextlib.nullcontext()
    with contextlib.nullcontext() if last or not hasattr(trained, "no_sync") else trained.no_sync():
        with cast:
            result = trained(tokens[:, :-1], tokens[:, 1:])
        (result / chosen.accumulation).backward()
    return result


def measure(chosen, rank, ranks):
    """The milliseconds of each measured step, the CPU seconds of all ranks in one, their peak memory, the last loss."""
    import torch
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    model = model_of(torch, chosen.model, chosen.vocabulary)
    if chosen.pure:
        model.bfloat16()
    optimizer = optimizer_of(torch, model, chosen.optimizer)
    trained = model
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        trained = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if chosen.compile:
        trained = torch.compile(trained)
    generator = torch.Generator().manual_seed(rank)
    times, cpu, loss, began = [], 0.0, 0.0, time.monotonic()
    for step in range(chosen.warmup + chosen.steps):
        start, used = time.monotonic(), time.process_time()
        for micro in range(chosen.accumulation):
            tokens = torch.randint(0, chosen.vocabulary, (chosen.batch // ranks, chosen.seq + 1), generator=generator)
            result = micro_batch(torch, chosen, trained, tokens, micro == chosen.accumulation - 1)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = result.item()
        if step >= chosen.warmup or start - began > chosen.seconds / 2:
            times.append(1e3 * (time.monotonic() - start))
            cpu += time.process_time() - used
        over = torch.tensor(float(bool(times) and time.monotonic() - began > chosen.seconds))
        if ranks > 1:
            torch.distributed.all_reduce(over)
        if over.item() > 0:
            break
    cpu = torch.tensor(cpu / len(times))
    peak = torch.tensor(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6)
    if ranks > 1:
        torch.distributed.all_reduce(cpu)
        torch.distributed.all_reduce(peak, torch.distributed.ReduceOp.MAX)
        torch.distributed.destroy_process_group()
    return times, cpu.item(), peak.item(), loss, torch.__version__


def main():
    chosen = options()
    tune_allocator(chosen.allocator)
    if chosen.ranks > 1 and "RANK" not in os.environ:
        sys.exit(start_ranks(chosen.ranks, chosen.threads))
    rank = int(os.environ["RANK"]) if chosen.ranks > 1 else 0
    times, cpu, peak, loss, version = measure(chosen, rank, chosen.ranks)
    if rank == 0:
        median = statistics.median(times)
        tokens = chosen.batch * chosen.seq * chosen.accumulation
        print(f"peer torch dtype={chosen.dtype} batch={chosen.batch} seq={chosen.seq} ranks={chosen.ranks} "
              f"threads={chosen.threads} tokens_per_s={1e3 * tokens / median:.1f} "
              f"cpu_ms_per_token={1e3 * cpu / tokens:.4f} peak_mb={peak:.0f} step_ms={median:.1f} "
              f"least_ms={min(times):.1f} most_ms={max(times):.1f} steps={len(times)} model={chosen.model} "
              f"allocator={chosen.allocator} compile={chosen.compile} pure={chosen.pure} optimizer={chosen.optimizer} loss={loss:.3f} "
              f"version={version}", flush=True)


main()
