"""checkpoint_torch.py - the same bytes saved and loaded by PyTorch: torch.save and torch.distributed.checkpoint.

usage: python tests/peers/checkpoint_torch.py FOLDER MEGABYTES [ROUNDS]

Saves MEGABYTES of float32 tensors of 16 MB each, flushed to the disk as a durable checkpoint must be (DCP flushes its
files itself), and prints one line a program: name, GB/s saved, GB/s loaded (from the page cache), best of ROUNDS (3).
"""
import os
import shutil
import sys
import time

import torch
import torch.distributed.checkpoint as dcp

folder, megabytes = sys.argv[1], int(sys.argv[2])
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
state = {f"t{i}": torch.rand(4 << 20) for i in range(max(1, megabytes // 16))}
size = sum(t.numel() * 4 for t in state.values()) / 1e9


def best(run):
    seconds = []
    for _ in range(rounds):
        begun = time.monotonic()
        run()
        seconds.append(time.monotonic() - begun)
    return size / min(seconds)


def save_file():
    with open(folder + "/one.pt", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def save_folder():
    shutil.rmtree(folder + "/dcp", ignore_errors=True)
    dcp.save(state, checkpoint_id=folder + "/dcp", no_dist=True)


saved = best(save_file)
print("torch.save", f"{saved:.3f}", f"{best(lambda: torch.load(folder + '/one.pt', weights_only=True)):.3f}")
saved = best(save_folder)
print("DCP", f"{saved:.3f}", f"{best(lambda: dcp.load(state, checkpoint_id=folder + '/dcp', no_dist=True)):.3f}")
