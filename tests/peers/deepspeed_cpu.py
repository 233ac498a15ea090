"""deepspeed_cpu.py - the CPU seconds of DeepSpeed's ZeRO on the training step that `bench_step --peer deepspeed` measures.

usage: python tests/peers/deepspeed_cpu.py [--model gpt2|byte|llama-125m] [--dtype fp32|bf16] [--batch 4] [--seq 256]
           [--ranks 2] [--threads 1] [--accumulation 1] [--stage 2] [--allocator default|tuned]
           [--steps 4]

DeepSpeed on its CPU accelerator over Gloo, each rank on cores of its own: random tokens, AdamW (PyTorch's fused one),
clipping to norm 1.0. bf16 is DeepSpeed's "bf16": parameters in bf16, masters in fp32. The first run compiles DeepSpeed's
communication. Two steps warm up. Prints one line like step_torch.py; CPU seconds are those of all ranks, memory is the
greatest resident set of a rank:

    peer deepspeed stage=2 dtype=fp32 ... tokens_per_s=212.3 cpu_ms_per_token=9.3 peak_mb=2900 ...
"""
import argparse
import os
import resource
import statistics
import sys
import time

from step_models import MODELS, groups_of, model_of, start_ranks, tune_allocator, vocabulary_of

WARMUP = 2


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--stage", type=int, choices=(0, 1, 2, 3), default=2)
    parser.add_argument("--allocator", choices=("default", "tuned"), default="default")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, help="instead of the model's own")
    chosen = parser.parse_args()
    chosen.vocabulary = chosen.vocabulary or vocabulary_of(chosen.model)
    return chosen


def measure(chosen, rank):
    """The milliseconds of each measured step, the CPU seconds of all ranks in one, their peak memory, the last loss."""
    import torch
    import deepspeed
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    model = model_of(torch, chosen.model, chosen.vocabulary)
    optimizer = torch.optim.AdamW(groups_of(model), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    settings = {"train_micro_batch_size_per_gpu": chosen.batch // chosen.ranks,
                "gradient_accumulation_steps": chosen.accumulation, "gradient_clipping": 1.0,
                "bf16": {"enabled": chosen.dtype == "bf16"}, "zero_optimization": {"stage": chosen.stage},
                "zero_allow_untested_optimizer": True, "steps_per_print": 1000000}
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)[0]
    generator = torch.Generator().manual_seed(rank)
    times, cpu, loss = [], 0.0, 0.0
    for step in range(WARMUP + chosen.steps):
        start, used = time.monotonic(), time.process_time()
        for _ in range(chosen.accumulation):
            tokens = torch.randint(0, chosen.vocabulary, (chosen.batch // chosen.ranks, chosen.seq + 1),
                                   generator=generator)
            result = engine(tokens[:, :-1], tokens[:, 1:])
            engine.backward(result)
            engine.step()
        loss = result.item()
        if step >= WARMUP:
            times.append(1e3 * (time.monotonic() - start))
            cpu += time.process_time() - used
    cpu = torch.tensor(cpu / len(times))
    peak = torch.tensor(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6)
    torch.distributed.all_reduce(cpu)
    torch.distributed.all_reduce(peak, torch.distributed.ReduceOp.MAX)
    torch.distributed.destroy_process_group()
    return times, cpu.item(), peak.item(), loss, deepspeed.__version__


def main():
    chosen = options()
    tune_allocator(chosen.allocator)
    if "RANK" not in os.environ:
        os.environ["DS_ACCELERATOR"] = "cpu"
        sys.exit(start_ranks(chosen.ranks, chosen.threads))
    rank = int(os.environ["RANK"])
    times, cpu, peak, loss, version = measure(chosen, rank)
    if rank == 0:
        median = statistics.median(times)
        tokens = chosen.batch * chosen.seq * chosen.accumulation
        print(f"peer deepspeed stage={chosen.stage} dtype={chosen.dtype} batch={chosen.batch} seq={chosen.seq} "
              f"ranks={chosen.ranks} threads={chosen.threads} tokens_per_s={1e3 * tokens / median:.1f} "
              f"cpu_ms_per_token={1e3 * cpu / tokens:.4f} peak_mb={peak:.0f} step_ms={median:.1f} "
              f"least_ms={min(times):.1f} most_ms={max(times):.1f} steps={len(times)} model={chosen.model} "
              f"allocator={chosen.allocator} loss={loss:.3f} version={version}", flush=True)
    sys.stdout.flush()
    os._exit(0)  # DeepSpeed's threads do not always end with the interpreter


main()
