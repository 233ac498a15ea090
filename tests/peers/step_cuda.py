"""step_cuda.py - the speed of PyTorch on a GPU on the training step that `bench_step --device cuda` measures.

usage: python tests/peers/step_cuda.py [--model gpt2|gpt2-xl|llama-1b|llama-3b|llama-8b] [--dtype bf16|fp32] [--batch 32]
           [--seq 1024] [--steps 10] [--pure] [--eager]

Random weights and tokens, no dropout, torch.compile, scaled_dot_product_attention, fused AdamW, clipping to norm 1.0,
set_to_none. bf16 is autocast over fp32 parameters; with --pure parameters, gradients and moments are bf16 themselves.
Prints one line, of the median step between two device events:

    peer torch model=gpt2 dtype=bf16 batch=32 seq=1024 tokens_per_s=512345.6 step_ms=64.0 memory_gb=21.3
"""
import argparse
import statistics

import torch
from torch import nn
from torch.nn import functional as F

# family, vocabulary, layers, heads, key heads, width, inner width, tied head
MODELS = {
    "gpt2": ("gpt2", 50304, 12, 12, 12, 768, 3072, True),
    "gpt2-xl": ("gpt2", 50304, 48, 25, 25, 1600, 6400, True),
    "llama-1b": ("llama", 128256, 16, 32, 8, 2048, 8192, True),
    "llama-3b": ("llama", 128256, 28, 24, 8, 3072, 8192, True),
    "llama-8b": ("llama", 128256, 32, 32, 8, 4096, 14336, False),
}


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--vocabulary", type=int, help="instead of the model's own")
    parser.add_argument("--pure", action="store_true")
    parser.add_argument("--eager", action="store_true")
    chosen = parser.parse_args()
    chosen.vocabulary = chosen.vocabulary or MODELS[chosen.model][1]
    return chosen


class Attention(nn.Module):
    def __init__(self, width, heads, keys, bias):
        super().__init__()
        self.heads, self.keys, self.head = heads, keys, width // heads
        self.qkv = nn.Linear(width, (heads + 2 * keys) * self.head, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x, turn):
        rows, length, width = x.shape
        q, k, v = self.qkv(x).split([self.heads * self.head, self.keys * self.head, self.keys * self.head], dim=2)
        q, k, v = (part.view(rows, length, -1, self.head).transpose(1, 2) for part in (q, k, v))
        if turn is not None:
            q, k = rotate(q, turn), rotate(k, turn)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.keys != self.heads)
        return self.out(mixed.transpose(1, 2).reshape(rows, length, width))


def rotate(x, turn):
    cosine, sine = turn
    first, second = x.chunk(2, dim=-1)
    return (x * cosine + torch.cat((-second, first), dim=-1) * sine).to(x.dtype)


class Gelu(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class SwiGLU(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, family, width, heads, keys, inner):
        super().__init__()
        llama = family == "llama"
        norm = (lambda: nn.RMSNorm(width, eps=1e-5)) if llama else (lambda: nn.LayerNorm(width))
        self.norm1, self.norm2 = norm(), norm()
        self.attention = Attention(width, heads, keys, bias=not llama)
        self.mlp = SwiGLU(width, inner) if llama else Gelu(width, inner)

    def forward(self, x, turn):
        x = x + self.attention(self.norm1(x), turn)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, name, length, vocabulary):
        super().__init__()
        family, _, layers, heads, keys, width, inner, tied = MODELS[name]
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(1024, width) if family == "gpt2" else None
        self.blocks = nn.ModuleList(Block(family, width, heads, keys, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5) if family == "llama" else nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.tokens.weight
        if family == "llama":
            head = width // heads
            angles = torch.outer(torch.arange(length), 500000.0 ** (-torch.arange(0, head, 2) / head)).repeat(1, 2)
            self.register_buffer("cosine", angles.cos(), persistent=False)
            self.register_buffer("sine", angles.sin(), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, inputs, targets):
        x = self.tokens(inputs)
        turn = None
        if self.positions is not None:
            x = x + self.positions(torch.arange(inputs.shape[1], device=inputs.device))
        else:
            turn = self.cosine, self.sine
        for block in self.blocks:
            x = block(x, turn)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def main():
    chosen = options()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("highest" if chosen.dtype == "fp32" else "high")
    with torch.device("cuda"):
        model = Model(chosen.model, chosen.seq, chosen.vocabulary)
        inputs, targets = torch.randint(chosen.vocabulary, (2, chosen.batch, chosen.seq))
    if chosen.pure:
        model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = model if chosen.eager else torch.compile(model)
    mixed = chosen.dtype == "bf16" and not chosen.pure

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            loss = run(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    times = []
    for _ in range(chosen.steps):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    middle = statistics.median(times)
    print(f"peer torch model={chosen.model} dtype={chosen.dtype} batch={chosen.batch} seq={chosen.seq} "
          f"tokens_per_s={chosen.batch * chosen.seq / middle * 1e3:.1f} step_ms={middle:.2f} "
          f"memory_gb={torch.cuda.max_memory_allocated() / 2**30:.1f}")


if __name__ == "__main__":
    main()
