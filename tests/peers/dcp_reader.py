"""dcp_reader.py - PyTorch's HuggingFaceStorageReader loads what cspeed saved at several world sizes: the same bits as the export;
and safetensors opens each of its shards.

    python tests/peers/dcp_reader.py BUILD/bin [WORLD ...]

Trains a small GPT-2 and a small Llama for two steps at ZeRO stages 1 and 3 at each world size (1, 2, 4), without tensor parallelism
and over 2 and 4 ranks where they divide the world size, exports each checkpoint, and compares every tensor that torch.distributed.checkpoint reads from the sharded folder with safetensors' own reading of the export.
Optimizer state is read too, and must be finite and of the parameter's shape.
"""
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from safetensors.torch import load_file
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

MODELS = {
    "gpt2": {"model_type": "gpt2", "vocab_size": 61, "n_positions": 64, "n_embd": 24, "n_layer": 2, "n_head": 3},
    "llama": {"model_type": "llama", "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64},
}


def write_tokens(path):
    head = np.zeros(256, "<i4")
    tokens = (np.arange(20000) * 7 % 61).astype("<u2")
    head[:3] = [20240520, 1, len(tokens)]
    with open(path, "wb") as file:
        file.write(head.tobytes() + tokens.tobytes())


def train(programs, model, stage, world, tp):
    config = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
              "zero_optimization": {"stage": stage},
              "cspeed": {"model": MODELS[model], "steps": 2, "output": "out", "threads": 1, "mesh": {"tp": tp}, "data": {"train": ["tokens.bin"], "seq_len": 16}}}
    with open("config.json", "w") as file:
        json.dump(config, file)
    subprocess.run([f"{programs}/cspeed", "--num_gpus", str(world), "--oversubscribe", "train", "--config", "config.json"],
                   check=True, capture_output=True)
    subprocess.run([f"{programs}/cspeed", "export", "out", "exported"], check=True, capture_output=True)
    return "out/" + open("out/latest").read()


def read_folder(folder, like):
    state = {name: torch.full(shape, float("nan")) for name, shape in like.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(path=folder), no_dist=True)
    return state


def open_shards(folder):
    """How many safetensors itself opens, each tensor of each read."""
    names = sorted(os.listdir(folder))
    for name in names:
        with safe_open(f"{folder}/{name}", framework="pt") as file:
            assert file.metadata()["format"] == "pt" and all(file.get_tensor(key) is not None for key in file.keys())
    return len(names)


def compare(programs, model, stage, world, tp):
    checkpoint = train(programs, model, stage, world, tp)
    wanted = load_file("exported/model.safetensors")
    shards = open_shards(checkpoint + "/weights") + open_shards(checkpoint + "/optim")
    got = read_folder(checkpoint + "/weights", {name: value.shape for name, value in wanted.items()})
    same = all(torch.equal(got[name], wanted[name]) for name in wanted)
    moments = {f"state.{name}.{slot}": value.shape for name, value in wanted.items() for slot in ("exp_avg", "exp_avg_sq")}
    same = same and all(torch.isfinite(value).all() for value in read_folder(checkpoint + "/optim", moments).values())
    subprocess.run(["rm", "-r", "out", "exported"], check=True)
    print(f"{model}, stage {stage}, {world} ranks, tp {tp}: {len(wanted)} tensors of {shards} files {'the same' if same else 'DIFFER'}", flush=True)
    return same


def main():
    warnings.filterwarnings("ignore", message=".*torch.distributed is disabled.*")
    programs = os.path.realpath(sys.argv[1])
    worlds = [int(world) for world in sys.argv[2:]] or [1, 2, 4]
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        write_tokens("tokens.bin")
        right = [compare(programs, model, stage, world, tp) for model in MODELS for stage in (1, 3) for world in worlds
                 for tp in (1, 2, 4) if world % tp == 0 and tp <= MODELS[model].get("n_head", 4)]
        os.chdir("/")
    sys.exit(not all(right))


if __name__ == "__main__":
    main()
