"""Rates of the schedulers of PyTorch and of transformers, for test_schedule: python make_schedule.py > schedule.golden

A case is three lines: the "scheduler" section, the optimizer's lr and the rates of updates 1, 2, ..., and beta1 of them (empty
where the schedule leaves it alone). CyclicLR is what DeepSpeed's OneCycle does within its one cycle; beta1 of update 1 is left
out, as DeepSpeed begins at the lower end there."""
import json
import math
import torch
from torch.optim.lr_scheduler import (ConstantLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, ExponentialLR,
                                      PolynomialLR, StepLR)
from transformers import get_scheduler


def adam(lr):
    return torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=lr)


def trace(optimizer, schedule, updates):
    rates, momenta = [], []
    for _ in range(updates):
        rates.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0]["betas"][0])
        optimizer.step()
        schedule.step()
    return rates, momenta


def case(kind, params, lr, rates, momenta):
    print(json.dumps({"type": kind, "params": params}))
    print(lr, *(repr(r) for r in rates))
    print(*(repr(m) for m in momenta))


for first, factor, low, lr, updates in [(5, 1, 0, 0.1, 23), (3, 2, 1e-5, 3e-4, 40), (1, 3, 0.01, 1.0, 30), (7, 1, 0.2, 0.1, 20)]:
    optimizer = adam(lr)
    rates, _ = trace(optimizer, CosineAnnealingWarmRestarts(optimizer, first, factor, low), updates)
    case("CosineAnnealingWarmRestarts", {"T_0": first, "T_mult": factor, "eta_min": low}, lr, rates, [])

for low, high, up, down, least, most in [(0.1, 0.5, 4, 4, 0.8, 0.9), (1e-4, 3e-3, 7, 13, 0.85, 0.95), (0, 1, 1, 9, 0.5, 0.99)]:
    optimizer = adam(low)
    schedule = CyclicLR(optimizer, low, high, up, down, cycle_momentum=True, base_momentum=least, max_momentum=most)
    rates, momenta = trace(optimizer, schedule, up + down)
    case("OneCycle", {"cycle_min_lr": low, "cycle_max_lr": high, "cycle_first_step_size": up, "cycle_second_step_size": down,
                      "cycle_min_mom": least, "cycle_max_mom": most}, low, rates, momenta[1:])

for kind, params in [
    (ConstantLR, {}), (ConstantLR, {"factor": 0.5, "total_iters": 9}), (CosineAnnealingLR, {"T_max": 7}),
    (CosineAnnealingLR, {"T_max": 30, "eta_min": 1e-3}), (ExponentialLR, {"gamma": 0.9}), (PolynomialLR, {}),
    (PolynomialLR, {"total_iters": 12, "power": 2.5}), (StepLR, {"step_size": 4}), (StepLR, {"step_size": 3, "gamma": 0.7}),
]:
    optimizer = adam(0.1)
    rates, _ = trace(optimizer, kind(optimizer, **params), 25)
    case(kind.__name__, params, 0.1, rates, [])

# The schedules of Hugging Face's Trainer. warmup_ratio is what Trainer makes of it: the next whole number of its steps.
TRAINER = [
    ("linear", 10, {}), ("linear", 0, {}), ("linear", 7, {"warmup_ratio": 0.07}), ("cosine", 5, {}), ("cosine", 0, {"num_cycles": 2}),
    ("cosine_with_restarts", 4, {"num_cycles": 3}), ("cosine_with_restarts", 0, {}), ("polynomial", 6, {"lr_end": 1e-5, "power": 2}),
    ("polynomial", 0, {}), ("constant", 0, {}), ("constant_with_warmup", 8, {}), ("constant_with_warmup", 0, {"warmup_ratio": 0.1}),
    ("inverse_sqrt", 10, {}), ("inverse_sqrt", 0, {}), ("inverse_sqrt", 5, {"timescale": 20}),
    ("cosine_with_min_lr", 5, {"min_lr": 1e-4}), ("cosine_with_min_lr", 0, {"min_lr_rate": 0.1, "num_cycles": 1}),
    ("cosine_warmup_with_min_lr", 5, {"min_lr_rate": 0.1}), ("cosine_warmup_with_min_lr", 6, {"min_lr": 1e-4, "warmup_lr_rate": 0.2}),
    ("warmup_stable_decay", 5, {"num_decay_steps": 20}),
    ("warmup_stable_decay", 8, {"num_decay_steps": 10, "num_stable_steps": 12, "warmup_type": "cosine", "decay_type": "1-sqrt", "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 8, {"num_decay_steps": 10, "warmup_type": "1-sqrt", "decay_type": "linear", "min_lr_ratio": 0.2}),
]
TOTAL, RATE = 50, 2e-3
for kind, warmup, params in TRAINER:
    optimizer = adam(RATE)
    ratio, rest = params.get("warmup_ratio"), {k: v for k, v in params.items() if k != "warmup_ratio"}
    if ratio is not None:
        warmup = math.ceil(TOTAL * ratio)
    elif kind != "constant":
        params = {"warmup_num_steps": warmup, **params}
    if kind not in ("constant", "constant_with_warmup", "inverse_sqrt") or ratio:
        params = {"total_num_steps": TOTAL, **params}
    rates, _ = trace(optimizer, get_scheduler(kind, optimizer, warmup, TOTAL, rest), TOTAL + 1)
    case(kind, params, RATE, rates, [])
