"""hsdp_same.py - hybrid sharding in cspeed and in PyTorch (HSDP): the losses of the same training, step by step.

usage: python tests/peers/hsdp_same.py [--build build/bin] [--steps 20] [--bound 1e-6]

A tiny GPT-2 of transformers trains on four ranks. PyTorch's fully_shard takes a mesh of 2 x 2 ranks (replicate, shard)
over Gloo, cspeed the strategy HYBRID_SHARD with groups of two ranks. Both read the same weights and the same tokens in
the same order, clip to norm 1.0 and update with AdamW: lr 1e-2, betas 0.9 and 0.95, weight decay 0.1 on matrices; one
sequence of 24 tokens a rank; all in float32. Prints the largest relative difference of a loss, and ends with 1 where it
is above --bound. Needs torch and transformers.
"""
import argparse
import array
import json
import os
import random
import subprocess
import sys
import tempfile

RANKS, GROUP, LENGTH, VOCAB, RATE = 4, 2, 24, 61, 1e-2


def tokens(count):
    """A text with something to learn: a token follows from the one before it, or one in ten is drawn."""
    generator = random.Random(5)
    text = [1]
    while len(text) < count:
        drawn = generator.randrange(VOCAB)
        text.append(drawn if generator.random() < 0.1 else (5 * text[-1] + 7) % VOCAB)
    return array.array("H", text)


def make_model(folder):
    import torch
    import transformers
    torch.manual_seed(7)
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=24, n_positions=LENGTH, vocab_size=VOCAB, resid_pdrop=0.0,
                                     embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.1, bos_token_id=None,
                                     eos_token_id=None)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def train_in_pytorch(folder, steps):
    import torch
    import transformers
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    mesh = init_device_mesh("cpu", (RANKS // GROUP, GROUP), mesh_dim_names=("replicate", "shard"))
    model = transformers.GPT2LMHeadModel.from_pretrained(os.path.join(folder, "model"), dtype=torch.float32)
    matrices = {name for name, p in model.named_parameters() if p.dim() >= 2}
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    named = list(model.named_parameters())
    groups = [{"params": [p for name, p in named if name in matrices], "weight_decay": 0.1},
              {"params": [p for name, p in named if name not in matrices], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    text, losses = torch.tensor(tokens(steps * RANKS * LENGTH + 1)), []
    for step in range(steps):
        at = (step * RANKS + rank) * LENGTH
        window = text[at:at + LENGTH + 1].long()
        logits = model(window[None, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits[0], window[1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().double() / RANKS
        torch.distributed.all_reduce(mean)
        losses.append(mean.item())
    if rank == 0:
        with open(os.path.join(folder, "theirs.json"), "w") as file:
            json.dump(losses, file)
    torch.distributed.destroy_process_group()


def call(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def train_in_cspeed(folder, steps, build):
    path = os.path.join(folder, "config.json")
    config = {
        "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, "zero_optimization": {"mics_shard_size": GROUP},
        "optimizer": {"type": "AdamW", "params": {"lr": RATE, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
        "cspeed": {
            "fsdp": {"sharding_strategy": "HYBRID_SHARD"}, "model": os.path.join(folder, "model"), "steps": steps,
            "data": {"train": os.path.join(folder, "train.bin"), "seq_len": LENGTH, "shuffle": False},
            "threads": 1, "output": os.path.join(folder, "out"), "save_interval": 0, "eval_interval": 0}}
    with open(path, "w") as file:
        json.dump(config, file)
    call([os.path.join(build, "cspeed"), "--num_gpus", str(RANKS), "--oversubscribe", os.path.join(build, "train"),
          "--config", path])
    with open(os.path.join(folder, "out", "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return [line["loss"] for line in lines if line.get("loss") is not None and "lr" in line]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/bin")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--bound", type=float, default=1e-6)
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.rank_of:
        train_in_pytorch(chosen.rank_of, chosen.steps)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make_model(os.path.join(folder, "model"))
        with open(os.path.join(folder, "train.bin"), "wb") as file:
            tokens(chosen.steps * RANKS * LENGTH + 1).tofile(file)
        ours = train_in_cspeed(folder, chosen.steps, chosen.build)
        call([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}",
              os.path.abspath(__file__), "--rank-of", folder, "--steps", str(chosen.steps)])
        with open(os.path.join(folder, "theirs.json")) as file:
            theirs = json.load(file)
    apart = max(abs(a - b) / b for a, b in zip(ours, theirs))
    print(f"{len(ours)} losses, {ours[0]:.6f} to {ours[-1]:.6f}: cspeed from PyTorch's HSDP at most {apart:.1e}, relative")
    return 0 if len(ours) == len(theirs) == chosen.steps and apart <= chosen.bound else 1


sys.exit(main())
