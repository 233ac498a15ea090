"""gpt2_torch.py - the speed of PyTorch on the training step that bench_step measures.

usage: python tests/peers/gpt2_torch.py [--model gpt2|byte] [--dtype fp32|bf16] [--batch 4] [--seq 256] [--ranks 1]
           [--threads 2] [--allocator default|tuned] [--optimizer fused|foreach|loop] [--steps 7] [--seconds 120]

A GPT-2 of 124 million parameters (vocabulary 50304, tied head) or the byte-level one of 10.8 million that quickstart
trains. A step takes --batch sequences over all ranks: random tokens, no dropout, scaled_dot_product_attention, AdamW,
clipping to norm 1.0, set_to_none; bf16 is autocast. With --ranks 2 and more: DistributedDataParallel over Gloo, each
rank on cores of its own. `tuned` starts the interpreter again with huge pages and no trimming in glibc's malloc. Warming
up ends after half of --seconds at the latest, measuring after --steps steps or --seconds; one step at least is
measured. Prints one line, of the median step:

    peer torch dtype=bf16 batch=4 seq=256 ranks=1 threads=2 tokens_per_s=512.3 step_ms=1998.8 ...
"""
import argparse
import contextlib
import ctypes
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

TUNED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=100000000000:"
                           "glibc.malloc.mmap_threshold=100000000000:glibc.malloc.top_pad=268435456"}
MODELS = {"gpt2": (12, 12, 768, 1024, 50304), "byte": (6, 6, 384, 256, 256)}


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--allocator", choices=("default", "tuned"), default="default")
    parser.add_argument("--optimizer", choices=("fused", "foreach", "loop"), default="fused")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--vocabulary", type=int, help="instead of the model's own")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120)
    chosen = parser.parse_args()
    chosen.vocabulary = chosen.vocabulary or MODELS[chosen.model][4]
    if chosen.batch % chosen.ranks:
        parser.error(f"--batch {chosen.batch} cannot be dealt to {chosen.ranks} ranks evenly")
    return chosen


def start_ranks(count, threads):
    """Runs this program again, once a rank; rank 0 prints. Ends the others when one falls."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    cores = sorted(os.sched_getaffinity(0))
    system = ctypes.CDLL(None)
    children = []

    def prepare(own):
        os.sched_setaffinity(0, own)
        system.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no rank outlives this process

    for rank in range(count):
        own = cores[rank * threads:(rank + 1) * threads] or cores
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                           GLOO_SOCKET_IFNAME="lo")
        children.append(subprocess.Popen([sys.executable, *sys.argv], env=environment,
                                         preexec_fn=lambda own=own: prepare(own)))
    code = 0
    try:
        while children and code == 0:
            time.sleep(0.05)
            for child in [c for c in children if c.poll() is not None]:
                children.remove(child)
                code = code or child.returncode
    finally:
        for child in children:
            child.kill()
    return code


def model_of(torch, name, vocabulary):
    nn, F = torch.nn, torch.nn.functional
    layers, heads, width, positions, _ = MODELS[name]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            rows, length, _ = x.shape
            q, k, v = (part.view(rows, length, heads, width // heads).transpose(1, 2)
                       for part in self.c_attn(self.ln_1(x)).split(width, dim=2))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.c_proj(mixed.transpose(1, 2).reshape(rows, length, width))
            return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
            self.h = nn.ModuleList(Block() for _ in range(layers))
            self.ln_f = nn.LayerNorm(width)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, 0, 0.02)

        def forward(self, inputs, targets):
            x = self.wte(inputs) + self.wpe(torch.arange(inputs.shape[1]))
            for block in self.h:
                x = block(x)
            logits = F.linear(self.ln_f(x), self.wte.weight)
            return F.cross_entropy(logits.view(-1, vocabulary), targets.reshape(-1))

    return GPT2()


def optimizer_of(torch, model, how):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    kind = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[how]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, **kind)


def measure(chosen, rank, ranks):
    """The milliseconds of each measured step, and the last loss."""
    import torch
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    model = model_of(torch, chosen.model, chosen.vocabulary)
    optimizer = optimizer_of(torch, model, chosen.optimizer)
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        trained = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    else:
        trained = model
    generator = torch.Generator().manual_seed(rank)
    times, loss, began = [], 0.0, time.monotonic()
    for step in range(chosen.warmup + chosen.steps):
        tokens = torch.randint(0, chosen.vocabulary, (chosen.batch // ranks, chosen.seq + 1), generator=generator)
        start = time.monotonic()
        with torch.autocast("cpu", dtype=torch.bfloat16) if chosen.dtype == "bf16" else contextlib.nullcontext():
            result = trained(tokens[:, :-1], tokens[:, 1:])
        result.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = result.item()
        if step >= chosen.warmup or start - began > chosen.seconds / 2:
            times.append(1e3 * (time.monotonic() - start))
        over = torch.tensor(float(bool(times) and time.monotonic() - began > chosen.seconds))
        if ranks > 1:
            torch.distributed.all_reduce(over)
        if over.item() > 0:
            break
    if ranks > 1:
        torch.distributed.destroy_process_group()
    return times, loss, torch.__version__


def main():
    chosen = options()
    if chosen.allocator == "tuned" and os.environ.get("GLIBC_TUNABLES") != TUNED["GLIBC_TUNABLES"]:
        os.environ.update(TUNED)  # glibc reads it when a process begins
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if chosen.ranks > 1 and "RANK" not in os.environ:
        sys.exit(start_ranks(chosen.ranks, chosen.threads))
    rank = int(os.environ["RANK"]) if chosen.ranks > 1 else 0
    times, loss, version = measure(chosen, rank, chosen.ranks)
    if rank == 0:
        median = statistics.median(times)
        tokens = chosen.batch * chosen.seq
        print(f"peer torch dtype={chosen.dtype} batch={chosen.batch} seq={chosen.seq} ranks={chosen.ranks} "
              f"threads={chosen.threads} tokens_per_s={1e3 * tokens / median:.1f} step_ms={median:.1f} "
              f"least_ms={min(times):.1f} most_ms={max(times):.1f} steps={len(times)} model={chosen.model} "
              f"allocator={chosen.allocator} optimizer={chosen.optimizer} loss={loss:.3f} version={version}", flush=True)


main()
