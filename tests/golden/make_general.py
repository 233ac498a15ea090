"""make_general.py - writes general.golden: what PyTorch computes for the operations of models of one's own.

usage: python tests/golden/make_general.py [OUTPUT]

Needs torch. Runs on the CPU in a second. The format of the file is in make_gpt2.py.

Everything is computed in float64 from inputs that are floats exactly. Each case has its inputs, its results and, by
autograd from a random gradient NAME.dy of the result NAME.y, the gradients NAME.d... of its inputs:
    function     sigmoid, tanh and exp of function.x: function.sigmoid and function.dsigmoid, and so on
    broadcast    y = (a + row) * column
    mean         of the rows (mean.rows) and columns (mean.columns) of mean.x
    softmax      y = softmax(0.5 x + bias), where each row of bias serves two rows of x
    attention    scaled_dot_product_attention of two samples with three heads, values wider than keys, and a bias that hides
                 two keys
    batch        y = bmm(a, b)
    image        conv2d of images (N, H, W, C) with stride, padding and dilation; image.w is (outputs, kernel, channels)
    signal       a causal conv1d with dilation
    smooth       cross_entropy with label_smoothing 0.1, rows without a target
    binary       binary_cross_entropy_with_logits, the mean of each row
    divergence   kl_div of two rows of logits, the sum of each row
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

from make_gpt2 import write_golden

generator = torch.Generator().manual_seed(7)
entries = {}


def keep(name, value):
    entries[name] = np.ascontiguousarray(value.detach().numpy()).astype("<f4")
    return value


def given(name, *shape):
    value = torch.randn(shape, generator=generator).double().requires_grad_()
    return keep(name, value)


def case(name, y, **inputs):
    keep(name + ".y", y)
    dy = torch.randn(y.shape, generator=generator).double()
    keep(name + ".dy", dy)
    for of, gradient in zip(inputs, torch.autograd.grad(y, inputs.values(), dy)):
        keep(f"{name}.d{of}", gradient)


def elements():
    x = given("function.x", 9, 13)
    dy = given("function.dy", 9, 13)
    for name in ("sigmoid", "tanh", "exp"):
        y = keep("function." + name, getattr(torch, name)(x))
        keep("function.d" + name, torch.autograd.grad(y, x, dy)[0])
    a, row, column = given("broadcast.a", 9, 13), given("broadcast.row", 1, 13), given("broadcast.column", 9, 1)
    case("broadcast", (a + row) * column, a=a, row=row, column=column)
    x = given("mean.x", 9, 13)
    keep("mean.rows", x.mean(1, keepdim=True)), keep("mean.columns", x.mean(0, keepdim=True))


def rows():
    x, bias = given("softmax.x", 12, 11), given("softmax.bias", 3, 11)
    case("softmax", (0.5 * x + bias.repeat_interleave(2, 0).repeat(2, 1)).softmax(1), x=x, bias=bias)
    q, k, v = (given(f"attention.{n}", 2, 3, *s) for n, s in (("q", (5, 4)), ("k", (7, 4)), ("v", (7, 6))))
    hidden = torch.zeros(5, 7).double()
    hidden[1, 2] = hidden[4, 6] = -torch.inf
    bias = given("attention.bias", 5, 7)
    entries["attention.bias"] += hidden.numpy().astype("<f4")
    case("attention", F.scaled_dot_product_attention(q, k, v, attn_mask=bias + hidden), q=q, k=k, v=v, bias=bias)
    a, b = given("batch.a", 4, 5, 3), given("batch.b", 4, 3, 6)
    case("batch", torch.bmm(a, b), a=a, b=b)


def convolutions():
    x, w = given("image.x", 2, 5, 6, 3), given("image.w", 4, 3, 2, 3)
    y = F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2))
    case("image", y.permute(0, 2, 3, 1), x=x, w=w)
    x, w = given("signal.x", 2, 9, 4), given("signal.w", 5, 3, 4)
    y = F.conv1d(F.pad(x.transpose(1, 2), (4, 0)), w.transpose(1, 2), dilation=2)
    case("signal", y.transpose(1, 2), x=x, w=w)


def losses():
    x, target = given("smooth.x", 6, 9), torch.tensor([3, -1, 0, 8, 8, -1])
    entries["smooth.target"] = target.numpy().astype("<i4")
    case("smooth", F.cross_entropy(x, target, ignore_index=-1, label_smoothing=0.1, reduction="none"), x=x)
    x = given("binary.x", 6, 9)
    target = keep("binary.target", torch.rand(6, 9, generator=generator).double().float().double())
    case("binary", F.binary_cross_entropy_with_logits(x, target, reduction="none").mean(1), x=x)
    x, target = given("divergence.x", 6, 9), given("divergence.target", 6, 9)
    y = F.kl_div(x.log_softmax(1), target.log_softmax(1), log_target=True, reduction="none").sum(1)
    case("divergence", y, x=x)


def main():
    elements(), rows(), convolutions(), losses()
    write_golden(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "general.golden"), entries)


main()
