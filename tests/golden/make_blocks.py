"""make_blocks.py - writes blocks.golden: three updates with 8-bit state, computed by bitsandbytes.

usage: TORCHDYNAMO_DISABLE=1 python tests/golden/make_blocks.py [OUTPUT]

Needs torch and bitsandbytes, whose update in PyTorch operations computes on the CPU. The format of the file is in
make_gpt2.py. OUTPUT is the folder tests/golden without an argument.

`signed` and `unsigned` are the two maps. The parameter has 1000 elements, so its last block is not full. For each
optimizer (adam, lion): NAME.value, the parameter after three updates; NAME.codes0 and NAME.codes1, the bytes of its codes,
four in an i32; NAME.scales0 and NAME.scales1, the scales of its blocks. Lion has only the first slot.
"""
import os
import sys

import bitsandbytes.functional as bnb
import numpy as np
import torch
from bitsandbytes.backends.triton.kernels_optim import optimizer_update_8bit_blockwise_pytorch as update

from make_gpt2 import write_golden

COUNT, BLOCK, STEPS = 1000, 256, 3


def numbers(step):
    """The parameter at step 0, then the gradients."""
    i = np.arange(COUNT, dtype=np.int64)
    each = ((i * 40503 + step * 30011) % 65536 - 32768).astype(np.float32) / 65536
    return torch.from_numpy(each * (2.0 ** -(i % 23)).astype(np.float32))


def train(name):
    maps = [bnb.create_dynamic_map(signed=True), bnb.create_dynamic_map(signed=False)]
    blocks = -(-COUNT // BLOCK)
    value = numbers(0)
    codes = [torch.zeros(COUNT, dtype=torch.uint8) for _ in maps]
    scales = [torch.zeros(blocks) for _ in maps]
    both = name == "adam"
    for step in range(1, STEPS + 1):
        update(value, numbers(step), codes[0], codes[1] if both else None, 0.9, 0.99, 0.0, 0.0, 1e-8, step, 0.01, maps[0],
               maps[1] if both else None, scales[0], scales[1] if both else None, 0.1, 1.0, False, optimizer_name=name)
    entries = {f"{name}.value": value.numpy()}
    for slot in range(2 if both else 1):
        entries[f"{name}.codes{slot}"] = np.frombuffer(codes[slot].numpy().tobytes(), "<i4")
        entries[f"{name}.scales{slot}"] = scales[slot].numpy()
    return entries


def main():
    output = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    entries = {"signed": bnb.create_dynamic_map(signed=True).numpy(),
               "unsigned": bnb.create_dynamic_map(signed=False).numpy(), **train("adam"), **train("lion")}
    write_golden(os.path.join(output, "blocks.golden"), entries)


if __name__ == "__main__":
    main()
