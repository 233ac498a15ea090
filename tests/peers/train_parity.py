"""train_parity.py - the same GPT trained by cspeed and by PyTorch: 50 losses, step by step.

usage: python tests/peers/train_parity.py [--train build/bin/train] [--launcher build/bin/cspeed] [--ranks 1]
           [--stage 0] [--steps 50] [--bound 1e-5] [--golden OUTPUT]

cspeed's train runs twice on a configuration that this script writes: one step at a rate of 0, whose checkpoint holds
the first values, then --steps steps. PyTorch takes those values and the same tokens in the same order. Both clip to
norm 1.0 and update with AdamW: lr 1e-2 under WarmupCosineLR (linear, 10 steps of warm-up, down to a tenth), betas 0.9
and 0.95, eps 1e-8, weight decay 0.1 on matrices; batches of 4 sequences of 32 tokens, halved by gradient accumulation;
all in float32. Prints the largest relative difference of a loss, and ends with 1 where it is above --bound.

--golden writes what test_parity holds cspeed to where there is no Python, in the format of make_gpt2.py:
    sizes       i32 (5)        n_layer, n_head, n_embd, n_positions, vocab_size
    inputs, targets  i32 (S, B, T)
    transformer.*  f32         first values
    losses, losses64  f32 (S)  PyTorch's losses in float32 and in float64, rounded
Needs torch, numpy and safetensors.
"""
import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file

LAYERS, HEADS, WIDTH, POSITIONS, VOCAB = 2, 3, 24, 32, 61
BATCH, LENGTH, MICRO = 4, 32, 2
RATE, WARMUP, LEAST = 1e-2, 10, 0.1


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", default="build/bin/train")
    parser.add_argument("--launcher", default="build/bin/cspeed")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--bound", type=float, default=1e-5)
    parser.add_argument("--golden")
    return parser.parse_args()


def tokens(count):
    """A text with something to learn: a token follows from the one before it, or one in ten is drawn."""
    generator = np.random.default_rng(5)
    text = [1]
    while len(text) < count:
        drawn = int(generator.integers(VOCAB))
        text.append(drawn if generator.random() < 0.1 else (5 * text[-1] + 7) % VOCAB)
    return np.array(text, dtype="<u2")


def config(folder, steps, rate, name, ranks, stage):
    return {
        "train_batch_size": BATCH, "gradient_accumulation_steps": BATCH // MICRO // ranks or 1,
        "gradient_clipping": 1.0, "zero_optimization": {"stage": stage},
        "optimizer": {"type": "AdamW", "params": {"lr": rate, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_type": "linear", "warmup_num_steps": WARMUP,
                                                           "total_num_steps": 50, "cos_min_ratio": LEAST}},
        "cspeed": {
            "model": {"model_type": "gpt2", "n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH,
                      "n_positions": POSITIONS, "vocab_size": VOCAB, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
                      "attn_pdrop": 0.0, "initializer_range": 0.1},
            "data": {"train": os.path.join(folder, "train.bin"), "seq_len": LENGTH, "shuffle": False},
            "steps": steps, "seed": 3, "threads": 1, "output": os.path.join(folder, name), "save_interval": 0,
            "eval_interval": 0, "metrics": "metrics.jsonl"}}


def run(chosen, folder, steps, rate, name, ranks):
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as file:
        json.dump(config(folder, steps, rate, name, ranks, chosen.stage), file)
    command = [chosen.train, "--config", path]
    if ranks > 1:
        command = [chosen.launcher, "--num_gpus", str(ranks), "--oversubscribe"] + command
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    with open(os.path.join(folder, name, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return [line["loss"] for line in lines if line.get("loss") is not None and "lr" in line]


def first_values(folder):
    """A checkpoint of one rank holds each tensor in one box."""
    values = {}
    for place, _, files in os.walk(os.path.join(folder, "first")):
        for name in files:
            if name.endswith(".safetensors") and os.path.basename(place) == "weights":
                values.update(load_file(os.path.join(place, name)))
    return {name: torch.from_numpy(value.copy()) for name, value in values.items()}


def logits_of(values, inputs):
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), values[name + ".weight"], values[name + ".bias"], eps=1e-5)

    def linear(x, name):
        return x @ values[name + ".weight"] + values[name + ".bias"]

    rows, length = inputs.shape
    x = values["transformer.wte.weight"][inputs] + values["transformer.wpe.weight"][:length]
    for layer in range(LAYERS):
        block = f"transformer.h.{layer}."
        q, k, v = (part.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in linear(norm(x, block + "ln_1"), block + "attn.c_attn").split(WIDTH, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(mixed.transpose(1, 2).reshape(rows, length, WIDTH), block + "attn.c_proj")
        hidden = F.gelu(linear(norm(x, block + "ln_2"), block + "mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, block + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ values["transformer.wte.weight"].T


def rate_of(update):
    """WarmupCosineLR, of update 0, 1, ...: the first runs at 0."""
    i = update - 1
    if i < 0:
        return 0.0
    if i < WARMUP:
        return RATE * i / WARMUP
    return RATE * (LEAST + (1 - LEAST) * (1 + math.cos(math.pi * min(1, (i - WARMUP + 1) / (50 - WARMUP)))) / 2)


def train(first, inputs, targets, dtype):
    values = {name: value.to(dtype, copy=True).requires_grad_() for name, value in first.items()}
    groups = [{"params": [v for v in values.values() if v.dim() >= 2], "weight_decay": 0.1},
              {"params": [v for v in values.values() if v.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(len(inputs)):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(logits_of(values, inputs[step]).reshape(-1, VOCAB), targets[step].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(values.values(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step)
        optimizer.step()
        losses.append(loss.item())
    return losses


def write_golden(path, entries):
    types = {np.dtype("<f4"): 0, np.dtype("<i4"): 1}
    head, place, body = b"CSGOLDEN" + struct.pack("<II", len(entries), 0), 16 + 112 * len(entries), b""
    for name, array in entries.items():
        begin = -(-(place + len(body)) // 64) * 64
        body += bytes(begin - place - len(body)) + array.tobytes()
        head += struct.pack("<64sII4qQ", name.encode(), types[array.dtype], array.ndim,
                            *array.shape, *(0,) * (4 - array.ndim), begin)
    with open(path, "wb") as file:
        file.write(head + body)
    print(f"{path}: {len(entries)} entries, {len(head) + len(body)} bytes")


def farthest(a, b):
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def main():
    chosen = options()
    torch.set_num_threads(1)
    text = tokens(chosen.steps * BATCH * LENGTH + 1)
    with tempfile.TemporaryDirectory() as folder:
        text.tofile(os.path.join(folder, "train.bin"))
        run(chosen, folder, 1, 0.0, "first", 1)
        ours = run(chosen, folder, chosen.steps, RATE, "run", chosen.ranks)
        first = first_values(folder)
    shape = (chosen.steps, BATCH, LENGTH)
    inputs, targets = (torch.from_numpy(t.astype(np.int64)).reshape(shape) for t in (text[:-1], text[1:]))
    theirs, exact = (train(first, inputs, targets, dtype) for dtype in (torch.float32, torch.float64))
    apart = farthest(ours, theirs)
    print(f"{len(ours)} losses, {ours[0]:.6f} to {ours[-1]:.6f}: cspeed from PyTorch at most {apart:.1e}, relative; "
          f"from float64 {farthest(ours, exact):.1e}, PyTorch from float64 {farthest(theirs, exact):.1e}")
    if chosen.golden:
        entries = {"sizes": np.array([LAYERS, HEADS, WIDTH, POSITIONS, VOCAB], "<i4"),
                   "inputs": inputs.numpy().astype("<i4"), "targets": targets.numpy().astype("<i4")}
        entries.update({name: value.numpy().astype("<f4") for name, value in first.items()})
        entries.update(losses=np.array(theirs, "<f4"), losses64=np.array(exact, "<f4"))
        write_golden(chosen.golden, entries)
    return 0 if len(ours) == chosen.steps and apart <= chosen.bound else 1


sys.exit(main())
