"""tp_same.py - tensor parallelism of cspeed, DeepSpeed (AutoTP) and PyTorch (DTensor): the same losses, and the speeds.

usage: python tests/peers/tp_same.py [--build build/bin] [--steps 10] [--rounds 1] [--bound 1e-5] [--shape small|125m]
           [--allocator default|tuned] [WAY ...]

A Llama of transformers trains in each way of WAYS (all of them without an argument), in float32: from the same weights,
on the same tokens in the same order, with AdamW (lr 1e-3, betas 0.9 and 0.95, weight decay 0.1 on matrices), clipped to
norm 1.0. One process of transformers computes the losses to which the others are compared. `transformers` and `cspeed`
run one rank, the other ways two; each rank has one thread and one core. The ways run in turn
in each round. --allocator tuned gives PyTorch's ranks huge pages and no trimming in glibc's malloc.

Prints for each way the largest relative difference of a loss, the tokens per second of the median step after the first
two, and the ratio of cspeed's speed to that of the same kind of parallelism (`tp` or `tp-sequence`) in this way: median
and range over the rounds. Ends with 1 where a loss differs by more than --bound. Needs torch, transformers and
deepspeed (AutoTP with Hugging Face's plan: 0.19). DeepSpeed's own collective in shared memory, which needs a compiler
and serves its inference only, is left out.
"""
import argparse
import array
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from step_models import groups_of, start_ranks, tune_allocator

os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1")  # DeepSpeed would look for a GPU and print that

RATE, BETAS, EPS, DECAY, CLIP, WARMUP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, 2
# batch, length, and the sizes of the model
SHAPES = {
    "small": (4, 128, {"vocab_size": 2048, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4,
                       "num_attention_heads": 8, "num_key_value_heads": 4}),
    "125m": (4, 256, {"vocab_size": 32000, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12,
                      "num_attention_heads": 12, "num_key_value_heads": 4}),
}
WAYS = ("transformers", "deepspeed", "dtensor", "dtensor-sequence", "cspeed", "cspeed-tp", "cspeed-tp-sequence")


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/bin")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bound", type=float, default=1e-5)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--allocator", choices=("default", "tuned"), default="default")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)  # the folder of a run of which this process is a rank
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"of {', '.join(WAYS)}")
    chosen = parser.parse_args()
    for way in chosen.ways:
        if way not in WAYS:
            parser.error(f"{way} is none of {', '.join(WAYS)}")
    return chosen


def tokens(count, vocabulary):
    """A text with something to learn: a token follows from the one before it, or one in ten is drawn."""
    generator = random.Random(5)
    text = [1]
    while len(text) < count:
        drawn = generator.randrange(vocabulary)
        text.append(drawn if generator.random() < 0.1 else (5 * text[-1] + 7) % vocabulary)
    return array.array("H", text)


def make(chosen, folder):
    """Writes the weights as a Hugging Face folder, and the tokens as a file that cspeed reads."""
    import torch
    import transformers
    torch.manual_seed(7)
    transformers.utils.logging.disable_progress_bar()
    batch, length, sizes = SHAPES[chosen.shape]
    config = transformers.LlamaConfig(**sizes, tie_word_embeddings=False, max_position_embeddings=1024,
                                      rms_norm_eps=1e-5, bos_token_id=None, eos_token_id=None)
    transformers.LlamaForCausalLM(config).save_pretrained(os.path.join(folder, "model"))
    with open(os.path.join(folder, "train.bin"), "wb") as file:
        tokens(chosen.steps * batch * length + 1, sizes["vocab_size"]).tofile(file)


# ---- PyTorch ----


def parallelize(torch, model, sequence):
    """Cuts the matrices of a Llama as Megatron does; logits stay divided for the loss. With `sequence` the tensors
    between the layers are divided along the sequence, from the first block on."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,
                                                   SequenceParallel, parallelize_module)
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    own, whole = Shard(1) if sequence else Replicate(), Replicate()
    block = {f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"}
    block |= {f"mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")}
    block |= {name: RowwiseParallel(output_layouts=own) for name in ("self_attn.o_proj", "mlp.down_proj")}
    if sequence:
        gathered = {"input_kwarg_layouts": {"hidden_states": own},
                    "desired_input_kwarg_layouts": {"hidden_states": whole}}
        block |= {"input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel(),
                  "self_attn": PrepareModuleInput(**gathered),
                  "mlp": PrepareModuleInput(input_layouts=(own,), desired_input_layouts=(whole,))}
        parallelize_module(model.model, mesh, {
            "norm": SequenceParallel(),
            "layers.0": PrepareModuleInput(input_layouts=(whole,), desired_input_layouts=(own,),
                                           use_local_output=True)})
    for layer in model.model.layers:
        parallelize_module(layer, mesh, block)
    parallelize_module(model, mesh, {
        "model.embed_tokens": RowwiseParallel(input_layouts=whole, output_layouts=whole),
        "lm_head": ColwiseParallel(input_layouts=own, output_layouts=Shard(-1), use_local_output=False)})


def loss_of(torch, model, window):
    logits = model(input_ids=window[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())


def clip(torch, groups):
    """Clips to norm CLIP. One group has DTensors and the other has not, which PyTorch's function refuses together."""
    grads = [[p.grad for p in group["params"]] for group in groups]
    norms = [torch.nn.utils.get_total_norm(each) for each in grads]
    norms = [norm.full_tensor() if hasattr(norm, "full_tensor") else norm for norm in norms]
    factor = min(1.0, CLIP / (torch.stack(norms).norm().item() + 1e-6))
    for each in grads:
        torch._foreach_mul_(each, factor)


def torch_steps(torch, model, windows):
    """Yields the loss of each step; the ranks of a DTensor model take part in the loss without gathering logits."""
    from torch.distributed.tensor.parallel import loss_parallel
    groups = groups_of(model)
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPS, fused=True)
    for window in windows:
        if torch.distributed.get_world_size() == 1:
            loss = loss_of(torch, model, window)
            loss.backward()
        else:
            with loss_parallel():
                loss = loss_of(torch, model, window)
                loss.backward()
        clip(torch, groups)
        optimizer.step()
        optimizer.zero_grad()
        yield (loss.full_tensor() if hasattr(loss, "full_tensor") else loss).item()


def deepspeed_steps(torch, model, windows):
    import deepspeed
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    optimizer = torch.optim.AdamW(groups_of(model), lr=RATE, betas=BETAS, eps=EPS, fused=True)
    settings = {"train_micro_batch_size_per_gpu": len(windows[0]), "gradient_clipping": CLIP,
                "zero_optimization": {"stage": 1}, "tensor_parallel": {"autotp_size": 2}, "steps_per_print": 1000000}
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)[0]
    for window in windows:
        loss = loss_of(torch, engine, window)
        engine.backward(loss)
        engine.step()
        yield loss.item()


def rank(chosen):
    """One rank of PyTorch or DeepSpeed. Rank 0 writes the losses, and the milliseconds of each step."""
    import torch
    import transformers
    (way,), folder = chosen.ways, chosen.rank_of
    torch.set_num_threads(1)
    if way != "deepspeed":
        torch.distributed.init_process_group("gloo")
    model = transformers.LlamaForCausalLM.from_pretrained(os.path.join(folder, "model"), dtype=torch.float32)
    model.train()
    if way.startswith("dtensor"):
        parallelize(torch, model, way.endswith("sequence"))
    batch, length, sizes = SHAPES[chosen.shape]
    text = torch.tensor(tokens(chosen.steps * batch * length + 1, sizes["vocab_size"])).long()
    windows = text.unfold(0, length + 1, length).split(batch)
    losses, times, began = [], [], time.monotonic()
    for loss in (deepspeed_steps if way == "deepspeed" else torch_steps)(torch, model, windows):
        now = time.monotonic()
        times.append(1e3 * (now - began))
        losses.append(loss)
        began = now
    if torch.distributed.get_rank() == 0:
        with open(os.path.join(folder, way + ".json"), "w") as file:
            json.dump([losses, times], file)
    torch.distributed.barrier()
    os._exit(0)  # DeepSpeed's threads do not always end with the interpreter


# ---- all ways ----


def call(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def run_peer(chosen, folder, way):
    call([sys.executable, os.path.abspath(__file__), "--rank-of", folder, "--shape", chosen.shape, "--steps",
          str(chosen.steps), "--allocator", chosen.allocator, way])
    with open(os.path.join(folder, way + ".json")) as file:
        return json.load(file)


def run_cspeed(chosen, folder, way):
    batch, length, _ = SHAPES[chosen.shape]
    path, ranks = os.path.join(folder, way + ".config.json"), 1 if way == "cspeed" else 2
    with open(path, "w") as file:
        json.dump({
            "train_batch_size": batch, "gradient_clipping": CLIP, "zero_optimization": {"stage": 1},
            "optimizer": {"type": "AdamW", "params": {"lr": RATE, "betas": BETAS, "eps": EPS, "weight_decay": DECAY}},
            "cspeed": {
                "model": os.path.join(folder, "model"), "steps": chosen.steps, "threads": 1,
                "mesh": {"tp": ranks, "sequence": way.endswith("sequence")},
                "data": {"train": os.path.join(folder, "train.bin"), "seq_len": length, "shuffle": False},
                "output": os.path.join(folder, way), "save_interval": 0, "eval_interval": 0}}, file)
    call([os.path.join(chosen.build, "cspeed"), "--num_gpus", str(ranks), os.path.join(chosen.build, "train"),
          "--config", path, "--fresh"])
    with open(os.path.join(folder, way, "metrics.jsonl")) as file:
        lines = [line for line in map(json.loads, file) if line.get("loss") is not None and "lr" in line]
    return [line["loss"] for line in lines], [line["step_ms"] for line in lines]


def middle(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} - {max(values):{form}})"


def report(way, losses, speeds, expected, ours):
    apart = max(abs(a - b) / b for a, b in zip(losses, expected))
    line = f"{way:18}  losses {losses[0]:.6f} to {losses[-1]:.6f}, at most {apart:.1e} apart"
    line += f"  {middle(speeds, '.0f')} tokens/s"
    if ours:
        line += f"  cspeed / this {middle([a / b for a, b in zip(ours, speeds)], '.2f')}"
    print(line, flush=True)
    return apart


def main():
    chosen = options()
    if chosen.rank_of:
        tune_allocator(chosen.allocator)
        if "RANK" in os.environ:
            rank(chosen)
        return start_ranks(1 if chosen.ways == ["transformers"] else 2, 1)
    ways = [way for way in WAYS if way == "transformers" or not chosen.ways or way in chosen.ways]
    batch, length, _ = SHAPES[chosen.shape]
    losses, speeds = {}, {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        make(chosen, folder)
        for _ in range(chosen.rounds):
            for way in ways:
                losses[way], times = (run_cspeed if way.startswith("cspeed") else run_peer)(chosen, folder, way)
                speeds[way].append(1e3 * batch * length / statistics.median(times[WARMUP:]))
    apart = 0.0
    for way in ways:
        ours = {"transformers": "cspeed", "dtensor-sequence": "cspeed-tp-sequence"}.get(way, "cspeed-tp")
        mine = [] if way.startswith("cspeed") else speeds[ours]
        apart = max(apart, report(way, losses[way], speeds[way], losses["transformers"], mine))
    return 0 if all(len(each) == chosen.steps for each in losses.values()) and apart <= chosen.bound else 1


sys.exit(main())
