"""step_models.py - the models of step_torch.py and deepspeed_cpu.py, and how their ranks start.

GPT-2 of 124 million parameters (vocabulary 50304, tied head), a byte-level one of 10.8 million, a Llama of 124.7
million (vocabulary 32000, 4 heads of keys for 12 of queries, untied head), and a Llama of 123.6 million for long
sequences (vocabulary 50304, 12 heads of keys, tied head). No dropout; attention is scaled_dot_product_attention.
"""
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

# family, layers, heads, key heads, width, inner width, vocabulary, tied head
MODELS = {
    "gpt2": ("gpt2", 12, 12, 12, 768, 3072, 50304, True),
    "byte": ("gpt2", 6, 6, 6, 384, 1536, 256, True),
    "llama-125m": ("llama", 12, 12, 4, 768, 2048, 32000, False),
    "llama-long": ("llama", 12, 12, 12, 768, 2048, 50304, True),
}
TUNED = ("glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold=100000000000:"
         "glibc.malloc.mmap_threshold=100000000000:glibc.malloc.top_pad=268435456")
POSITIONS = {"gpt2": 1024, "llama": 8192}
THETA = 500000.0


def vocabulary_of(name):
    return MODELS[name][6]


def model_of(torch, name, vocabulary):
    """A module that returns the mean loss of (inputs, targets)."""
    nn, F = torch.nn, torch.nn.functional
    family, layers, heads, keys, width, inner, _, tied = MODELS[name]
    llama, head = family == "llama", width // heads

    def norm():
        return nn.RMSNorm(width, eps=1e-5) if llama else nn.LayerNorm(width)

    def rotate(x, turn):
        cosine, sine = turn
        first, second = x.chunk(2, dim=-1)
        return (x * cosine + torch.cat((-second, first), dim=-1) * sine).to(x.dtype)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(width, (heads + 2 * keys) * head, bias=not llama)
            self.out = nn.Linear(width, width, bias=not llama)

        def forward(self, x, turn):
            rows, length, _ = x.shape
            q, k, v = (part.view(rows, length, -1, head).transpose(1, 2)
                       for part in self.qkv(x).split((heads * head, keys * head, keys * head), dim=2))
            if llama:
                q, k = rotate(q, turn), rotate(k, turn)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=keys != heads)
            return self.out(mixed.transpose(1, 2).reshape(rows, length, width))

    class Feed(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(width, inner, bias=not llama), nn.Linear(inner, width, bias=not llama)
            self.gate = nn.Linear(width, inner, bias=False) if llama else None

        def forward(self, x):
            return self.down(F.silu(self.gate(x)) * self.up(x) if llama else F.gelu(self.up(x), approximate="tanh"))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2, self.attention, self.feed = norm(), norm(), Attention(), Feed()

        def forward(self, x, turn):
            x = x + self.attention(self.norm1(x), turn)
            return x + self.feed(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.positions = None if llama else nn.Embedding(POSITIONS[family], width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = norm()
            self.head = nn.Linear(width, vocabulary, bias=False)
            if tied:
                self.head.weight = self.tokens.weight
            turns = THETA ** (-torch.arange(0, head, 2) / head)
            angles = torch.outer(torch.arange(POSITIONS[family]), turns).repeat(1, 2)
            self.register_buffer("cosine", angles.cos(), persistent=False)
            self.register_buffer("sine", angles.sin(), persistent=False)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, 0, 0.02)

        def forward(self, inputs, targets):
            length, turn = inputs.shape[1], None
            x = self.tokens(inputs)
            if llama:
                turn = self.cosine[:length], self.sine[:length]
            else:
                x = x + self.positions(torch.arange(length))
            for block in self.blocks:
                x = block(x, turn)
            return F.cross_entropy(self.head(self.norm(x)).view(-1, vocabulary), targets.reshape(-1))

    return Model()


def groups_of(model):
    """AdamW's parameter groups: weight decay on matrices only."""
    return [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]


def tune_allocator(how):
    """Starts the interpreter again, if `how` is "tuned", with huge pages and no trimming in glibc's malloc."""
    if how == "tuned" and os.environ.get("GLIBC_TUNABLES") != TUNED:
        os.environ["GLIBC_TUNABLES"] = TUNED  # glibc reads it when a process begins
        os.execv(sys.executable, [sys.executable, *sys.argv])


def start_ranks(count, threads):
    """Runs this program again, once a rank, each on cores of its own; rank 0 prints. Ends the others when one falls."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    cores = sorted(os.sched_getaffinity(0))
    system = ctypes.CDLL(None)
    children = []

    def prepare(own):
        os.sched_setaffinity(0, own)
        system.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no rank outlives this process

    for rank in range(count):
        own = cores[rank * threads:(rank + 1) * threads] or cores
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
        children.append(subprocess.Popen([sys.executable, *sys.argv], env=environment,
                                         preexec_fn=lambda own=own: prepare(own)))
    code = 0
    try:
        while children and code == 0:
            time.sleep(0.05)
            for child in [c for c in children if c.poll() is not None]:
                children.remove(child)
                code = code or child.returncode
    finally:
        for child in children:
            child.kill()
    return code
