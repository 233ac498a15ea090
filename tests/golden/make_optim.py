"""make_optim.py - writes optim.golden: 20 steps of every optimizer and option, to hold our own to.

usage: python tests/golden/make_optim.py [OUTPUT]

Needs torch 2.9 or later and numpy. Runs on the CPU in seconds. The format of the file is in make_gpt2.py.

Everything is computed in float64 from values and gradients that are floats exactly, so that an fp32 implementation
stands against the true trajectory. Adam, AdamW, SGD and Adagrad are torch.optim's; Lion, LAMB and Muon are written here
from their papers and DeepSpeed's kernels; Muon is compared first with torch.optim.Muon (which works in bfloat16:
loosely), and Lion with the package lion_pytorch where it is installed.

The entries, for each case of CASES:
    NAME         f32 (20, N)  of the parameters after each step, in order, one behind the other, every 29th element,
                              beginning with element (step % 29), steps counting from 0
    NAME.final   f32          all elements after step 20
Values and gradients are not in the file: tests/optim/test_optimizers.c makes them by the same arithmetic (element()).
"""
import math
import os
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

STEPS, EVERY = 20, 29
PARAMETERS = [("block.0.weight", (17, 33)), ("block.0.bias", (65,)), ("block.1.weight", (3, 5)), ("block.1.norm", (7,)),
              ("block.1.tall", (29, 11)), ("embed.weight", (9, 4)), ("head.lm_head", (4, 9))]


def element(seed, shape):
    """Multiples of 2^-16 in [-1/2, 1/2), one in eleven of them 0."""
    index = np.arange(math.prod(shape), dtype=np.uint64)
    mixed = (index * np.uint64(2654435761) + np.uint64(seed) * np.uint64(2246822519)) % np.uint64(2 ** 32)
    mixed = (mixed ^ (mixed >> np.uint64(15))) * np.uint64(2246822519) % np.uint64(2 ** 32)
    mixed = (mixed ^ (mixed >> np.uint64(13))) * np.uint64(3266489917) % np.uint64(2 ** 32)
    value = ((mixed >> np.uint64(12)) & np.uint64(0xffff)).astype(np.float64) / 65536 - 0.5
    value[mixed % np.uint64(11) == 0] = 0
    return torch.from_numpy(value.reshape(shape))


def first_values():
    return [element(1000 + at, shape) for at, (_, shape) in enumerate(PARAMETERS)]


def gradients(step):
    return [element(31 * step + at, shape) / 8 for at, (_, shape) in enumerate(PARAMETERS)]


def is_matrix(name, value):
    return value.dim() == 2 and not any(word in name for word in ("embed", "lm_head", "wte", "wpe"))


# ---- references: state, value, gradient, step from 1 to the new value ----

def lion(state, p, g, t, lr=1e-3, betas=(0.9, 0.999), weight_decay=0.0):
    m = state.setdefault("m", torch.zeros_like(p))
    mix = betas[0] * m + (1 - betas[0]) * g
    state["m"] = betas[1] * m + (1 - betas[1]) * g
    return p * (1 - lr * weight_decay) - lr * mix.sign()


def moments(state, p, g, betas):
    state["m"] = betas[0] * state.get("m", torch.zeros_like(p)) + (1 - betas[0]) * g
    state["v"] = betas[1] * state.get("v", torch.zeros_like(p)) + (1 - betas[1]) * g * g
    return state["m"], state["v"]


def adamw(state, p, g, t, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, bias_correction=True):
    m, v = moments(state, p, g, betas)
    if bias_correction:
        m, v = m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)
    return p - lr * (m / (v.sqrt() + eps) + weight_decay * p)


def lamb(state, p, g, t, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, bias_correction=True,
         eps_inside_sqrt=False, max_coeff=10.0, min_coeff=0.01):
    m, v = moments(state, p, g, betas)
    u = m / ((v + eps).sqrt() if eps_inside_sqrt else v.sqrt() + eps) + weight_decay * p
    norm, step = p.norm(), u.norm()
    ratio = min(max(norm / step, min_coeff), max_coeff) if norm > 0 and step > 0 else 1.0
    fix = math.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t) if bias_correction else 1.0
    return p - lr * fix * ratio * u


def orthogonal(u):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = u / (u.norm() + 1e-7)
    x = x.T if u.shape[0] > u.shape[1] else x
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if u.shape[0] > u.shape[1] else x


def muon(state, p, g, t, lr=0.02, momentum=0.95, weight_decay=0.0):
    buffer = state.get("b", torch.zeros_like(p))
    buffer = buffer + (1 - momentum) * (g - buffer)
    state["b"] = buffer
    u = orthogonal(g + momentum * (buffer - g)) * math.sqrt(max(1, p.shape[0] / p.shape[1]))
    return p * (1 - lr * weight_decay) - lr * u


# ---- cases ----

def run_rule(choose, grads=gradients):
    """choose(name, value) gives a rule of the above and its options; or, of a step, through `at`."""
    values, states = first_values(), [{} for _ in PARAMETERS]
    for step in range(STEPS):
        for at, g in enumerate(grads(step)):
            rule, options = choose(PARAMETERS[at][0], values[at], step)
            values[at] = rule(states[at], values[at], g, step + 1, **options)
        yield values


def run_torch(kind, options, weight_decay=0.0, grads=gradients):
    values = [value.requires_grad_() for value in first_values()]
    groups = [{"params": [v for v in values if v.dim() == 2], "weight_decay": weight_decay},
              {"params": [v for v in values if v.dim() < 2], "weight_decay": 0.0}]
    optimizer = kind(groups, **options)
    for step in range(STEPS):
        for value, g in zip(values, grads(step)):
            value.grad = g.clone()
        optimizer.step()
        yield [value.detach().clone() for value in values]


def plain(rule, weight_decay=0.0, **options):
    return lambda name, value, step: (rule, dict(options, weight_decay=weight_decay if value.dim() == 2 else 0.0))


def muon_sides(matrix, other):
    def choose(name, value, step):
        if is_matrix(name, value):
            return muon, matrix
        return adamw, dict(other, weight_decay=other["weight_decay"] if value.dim() == 2 else 0.0)
    return choose


def clipped(most):
    def grads(step):
        whole = gradients(step)
        norm = math.sqrt(sum(float((g * g).sum()) for g in whole))
        return [g * min(1, most / (norm + 1e-6)) for g in whole]
    return grads


def adamw_groups(name, value, step):
    options = {"lr": 1e-2, "betas": (0.9, 0.999), "weight_decay": 0.1 if value.dim() == 2 else 0.0}
    if name.startswith("block.1."):
        options = {"lr": 1e-3, "betas": (0.5, 0.9), "weight_decay": 0.5}
    elif name.endswith(".bias"):
        options["weight_decay"] = 0.2
    return adamw, options


def sgd(state, p, g, t, lr=1e-3, momentum=0.0):
    if momentum:
        state["b"] = g if t == 1 else momentum * state["b"] + g
        g = state["b"]
    return p - lr * g


def cycled(name, value, step):
    """OneCycle of 0.001 to 0.005 in 4 + 4 updates; momentum between 0.85 and 0.95, from 0.85 for the first."""
    n, half = step, 4
    f = n / half if n <= half else max(0.0, (2 * half - n) / half)
    beta = 0.95 - 0.1 * f
    return adamw, {"lr": 1e-3 + 4e-3 * f, "betas": (0.85 if step == 0 else beta, 0.99), "weight_decay": 0.0}


MUON = {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.0}
MUON_ADAM = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-10, "weight_decay": 0.0}
CASES = {
    "adamw": lambda: run_torch(torch.optim.AdamW, {"lr": 1e-2}, 0.1),
    "adam_is_adamw": lambda: run_torch(torch.optim.AdamW, {"lr": 1e-2, "betas": (0.8, 0.95), "eps": 1e-6}, 0.1),
    "adam_l2": lambda: run_torch(torch.optim.Adam, {"lr": 1e-2, "betas": (0.9, 0.95)}, 0.1),
    "adam_no_correction": lambda: run_rule(plain(adamw, 0.1, lr=1e-2, bias_correction=False)),
    "adamw_clipped": lambda: run_torch(torch.optim.AdamW, {"lr": 1e-2, "eps": 1e-2}, 0.1, clipped(0.5)),
    "adamw_groups": lambda: run_rule(adamw_groups),
    "adamw_cycled": lambda: run_rule(cycled),
    "sgd": lambda: run_torch(torch.optim.SGD, {"lr": 0.1}, 0.01),
    "sgd_momentum": lambda: run_torch(torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}, 0.01),
    "sgd_nesterov": lambda: run_torch(torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}, 0.01),
    "sgd_groups": lambda: run_rule(lambda name, value, step: (
        sgd, {"lr": 0.1, "momentum": 0.0 if name in ("block.0.bias", "block.1.weight") else 0.9})),
    "adagrad": lambda: run_torch(torch.optim.Adagrad, {}),
    "adagrad_options": lambda: run_torch(torch.optim.Adagrad, {"lr": 0.05, "lr_decay": 0.1, "eps": 1e-3,
                                                               "initial_accumulator_value": 0.5}, 0.01),
    "lion": lambda: run_rule(plain(lion)),
    "lion_options": lambda: run_rule(plain(lion, 0.1, lr=3e-3, betas=(0.8, 0.99))),
    "lamb": lambda: run_rule(plain(lamb, 0.01, lr=1e-2)),
    "lamb_options": lambda: run_rule(plain(lamb, 0.1, lr=1e-2, betas=(0.8, 0.9), eps=1e-4, eps_inside_sqrt=True,
                                           bias_correction=False, max_coeff=0.5, min_coeff=0.3)),
    "muon": lambda: run_rule(muon_sides(MUON, MUON_ADAM)),
    "muon_options": lambda: run_rule(
        muon_sides({"lr": 0.05, "momentum": 0.8, "weight_decay": 0.1},
                   {"lr": 1e-2, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1}), clipped(0.5)),
    "muon_one_rate": lambda: run_rule(muon_sides(dict(MUON, lr=0.01), dict(MUON_ADAM, lr=0.01))),
}


# ---- other judges of what is written here ----

def distance(values, others):
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(values, others))


def last(run):
    for values in run:
        pass
    return [value.clone() for value in values]


def compare_muon():
    values = [value.float().requires_grad_() for value in first_values()]
    matrices = [v for (name, _), v in zip(PARAMETERS, values) if is_matrix(name, v)]
    optimizer = torch.optim.Muon(matrices, lr=0.02, momentum=0.95, weight_decay=0.1)
    for step in range(STEPS):
        for value, g in zip(values, gradients(step)):
            value.grad = g.float()
        optimizer.step()
    ours = last(run_rule(muon_sides(dict(MUON, weight_decay=0.1), MUON_ADAM)))
    ours = [v for (name, _), v in zip(PARAMETERS, ours) if is_matrix(name, v)]
    far = distance([m.detach().double() for m in matrices], ours)
    assert far < 0.05, far
    print(f"muon: {far:.1e} from torch.optim.Muon, which works in bfloat16")


def compare_lion():
    try:
        from lion_pytorch import Lion
        theirs = last(run_torch(Lion, {"lr": 3e-3, "betas": (0.8, 0.99)}, 0.1))
        print(f"lion: {distance(theirs, last(CASES['lion_options']())):.1e} from lion_pytorch")
        assert distance(theirs, last(CASES["lion_options"]())) < 1e-9
    except ImportError:
        print("lion_pytorch is not installed: Lion was not compared with it")


def main():
    from make_gpt2 import write_golden
    torch.set_num_threads(1)
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "optim.golden")
    compare_muon()
    compare_lion()
    entries = {}
    for name, run in CASES.items():
        rows = []
        for step, values in enumerate(run()):
            flat = torch.cat([value.reshape(-1) for value in values])
            part = flat[step % EVERY::EVERY]
            rows.append(part[:flat.numel() // EVERY].numpy())
        entries[name] = np.stack(rows).astype("<f4")
        entries[name + ".final"] = flat.numpy().astype("<f4")
    write_golden(path, entries)


if __name__ == "__main__":
    main()
