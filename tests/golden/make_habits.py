"""make_habits.py - writes habits.golden: losses with label smoothing and z-loss, for test_regular.

usage: python tests/golden/make_habits.py [OUTPUT]

Needs torch and transformers. The file's format is in make_gpt2.py. `logits` (9, 13) and `targets` (9) are random, with
one target that does not count; `factors` are the two factors. smoothed, z and both are mean losses, and NAME_grad their
gradients: label smoothing is transformers' LabelSmoother, and the z-loss is the mean of factor * logsumexp(logits)^2.
"""
import os
import sys

import numpy as np
import torch
from transformers.trainer_pt_utils import LabelSmoother

from make_gpt2 import write_golden

ROWS, CLASSES, SMOOTHING, Z_LOSS = 9, 13, 0.1, 1e-2


def loss_of(logits, targets, smoothing, z_loss):
    counts = targets != -100
    smoother = LabelSmoother(epsilon=smoothing)
    labels = torch.where(counts, targets, torch.full_like(targets, -100))
    loss = smoother({"logits": logits[None]}, labels[None].clone())
    return loss + z_loss * (torch.logsumexp(logits, -1) ** 2)[counts].mean()


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "habits.golden")
    generator = torch.Generator().manual_seed(3)
    logits = (3 * torch.randn(ROWS, CLASSES, generator=generator)).float()
    targets = torch.randint(0, CLASSES, (ROWS,), generator=generator)
    targets[4] = -100
    entries = [("logits", logits.numpy()), ("targets", targets.numpy().astype(np.int32)),
               ("factors", np.array([SMOOTHING, Z_LOSS], np.float32))]
    for name, smoothing, z_loss in [("smoothed", SMOOTHING, 0), ("z", 0, Z_LOSS), ("both", SMOOTHING, Z_LOSS)]:
        x = logits.double().requires_grad_()
        loss = loss_of(x, targets, smoothing, z_loss)
        loss.backward()
        entries += [(name, np.array([loss.item()], np.float32)), (name + "_grad", x.grad.float().numpy())]
    write_golden(path, dict(entries))


if __name__ == "__main__":
    main()
