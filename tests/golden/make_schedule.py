"""Rates of PyTorch's own schedulers, for test_schedule: python make_schedule.py > schedule.golden

A case is three lines: the "scheduler" section, the optimizer's lr and the rates of updates 1, 2, ..., and beta1 of them (empty
where the schedule leaves it alone). CyclicLR is what DeepSpeed's OneCycle does within its one cycle; beta1 of update 1 is left
out, as DeepSpeed begins at the lower end there."""
import json
import torch
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, CyclicLR


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
