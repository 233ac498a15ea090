"""make_gpt2.py - writes gpt2_tiny.golden: what PyTorch computes for a tiny GPT-2, to hold our own arithmetic to.

usage: python tests/golden/make_gpt2.py [OUTPUT]

Needs torch; where transformers is installed too, the model below is first compared with its GPT2LMHeadModel. Runs on the
CPU in seconds, and gives the same file on the same machine.

The file, little-endian:
    8 bytes "CSGOLDEN", u32 number of entries, u32 zero
    entries of 112 bytes: name (64 bytes, zero-filled), u32 type (0: f32, 1: i32), u32 dimensions,
                          i64 shape[4] (zero-filled), u64 byte offset of the data from the file's begin (a multiple of 64)
    the data, row-major

The entries, with S = 10 steps, B = 3, T = 12, V = 61 tokens, 2 layers, 24 wide, 3 heads, 16 positions, tied head:
    sizes        i32 (5)        n_layer, n_head, n_embd, n_positions, vocab_size
    inputs       i32 (S, B, T)  a batch for each step
    targets      i32 (S, B, T)  the inputs shifted by one; step 7 masks some with -1, which the mean leaves out
    transformer.*  f32          initial values, named and laid out as Hugging Face does (Conv1D weights are [in, out])
    logits       f32 (B, T, V)  of batch 0 with the initial values; no dropout anywhere
    grad.NAME    f32            the gradient of batch 0's mean loss with respect to parameter NAME
    losses       f32 (S)        the mean loss of batch s before update s
    grad_norms   f32 (S)        the global L2 norm of the gradients of batch s, before clipping
Each step clips to norm 1.0 and updates with AdamW: lr 1e-3, betas 0.9 and 0.95, eps 1e-8, weight decay 0.1 on
parameters of two dimensions, none on others. All of that is in float32. The same run in float64, rounded to f32 at the
end, stands beside it as logits64, grad64.NAME, losses64 and grad_norms64: a distance between float32 results means
little below their own distance from these.
"""
import os
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, POSITIONS, VOCAB = 2, 3, 24, 16, 61
STEPS, BATCH, LENGTH = 10, 3, 12
MASKED_STEP = 7


def initial_values():
    """Values large enough that no gradient is near zero: biases and norms are random too."""
    shapes = {"transformer.wte.weight": (VOCAB, WIDTH), "transformer.wpe.weight": (POSITIONS, WIDTH)}
    for layer in range(LAYERS):
        block = f"transformer.h.{layer}."
        for name, columns in (("ln_1", 0), ("attn.c_attn", 3 * WIDTH), ("attn.c_proj", WIDTH), ("ln_2", 0),
                              ("mlp.c_fc", 4 * WIDTH), ("mlp.c_proj", WIDTH)):
            rows = 4 * WIDTH if name == "mlp.c_proj" else WIDTH
            shapes[block + name + ".weight"] = (rows, columns) if columns else (WIDTH,)
            shapes[block + name + ".bias"] = (columns or WIDTH,)
    shapes["transformer.ln_f.weight"] = shapes["transformer.ln_f.bias"] = (WIDTH,)
    generator = torch.Generator().manual_seed(1)
    values = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        norm_gain = "ln_" in name and name.endswith(".weight")
        values[name] = 1 + 0.1 * noise if norm_gain else (0.2 if len(shape) == 2 else 0.1) * noise
    return values


def batches():
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, VOCAB, (STEPS, BATCH, LENGTH + 1), generator=generator)
    inputs, targets = tokens[:, :, :-1].clone(), tokens[:, :, 1:].clone()
    targets[MASKED_STEP, 0, 3:7] = -1
    targets[MASKED_STEP, 2, 11] = -1
    return inputs, targets


def logits_of(values, tokens):
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), values[name + ".weight"], values[name + ".bias"], eps=1e-5)

    def linear(x, name):
        return x @ values[name + ".weight"] + values[name + ".bias"]

    rows, length = tokens.shape
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    x = values["transformer.wte.weight"][tokens] + values["transformer.wpe.weight"][:length]
    for layer in range(LAYERS):
        block = f"transformer.h.{layer}."
        q, k, v = (part.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in linear(norm(x, block + "ln_1"), block + "attn.c_attn").split(WIDTH, dim=2))
        scores = (q @ k.transpose(2, 3)) / (WIDTH // HEADS) ** 0.5
        mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + linear(mixed.transpose(1, 2).reshape(rows, length, WIDTH), block + "attn.c_proj")
        hidden = F.gelu(linear(norm(x, block + "ln_2"), block + "mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, block + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ values["transformer.wte.weight"].T


def loss_of(logits, targets):
    return F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1), ignore_index=-1)


def train(dtype):
    """The run in one precision: logits and gradients of batch 0, losses and norms of all steps."""
    inputs, targets = batches()
    values = {name: value.to(dtype).requires_grad_() for name, value in initial_values().items()}
    logits = logits_of(values, inputs[0]).detach()
    groups = [{"params": [v for v in values.values() if v.dim() >= 2], "weight_decay": 0.1},
              {"params": [v for v in values.values() if v.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    grads, losses, norms = {}, [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(logits_of(values, inputs[step]), targets[step])
        loss.backward()
        if step == 0:
            grads = {name: value.grad.clone() for name, value in values.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(values.values(), 1.0).item())
        losses.append(loss.item())
        optimizer.step()
    return logits, grads, torch.tensor(losses, dtype=torch.float64), torch.tensor(norms, dtype=torch.float64)


def compare_with_transformers():
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        print("transformers is not installed: the model was not compared with GPT2LMHeadModel")
        return
    config = GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, n_positions=POSITIONS, vocab_size=VOCAB,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager",
                        bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).double()
    inputs, targets = batches()
    values = {name: value.double().requires_grad_() for name, value in initial_values().items()}
    missing, unexpected = model.load_state_dict(values, strict=False)
    assert not unexpected, unexpected
    assert all(name == "lm_head.weight" or name.endswith("attn.bias") for name in missing), missing
    logits = logits_of(values, inputs[0])
    theirs = model(input_ids=inputs[0]).logits
    loss_of(logits, targets[0]).backward()
    loss_of(theirs, targets[0]).backward()
    assert torch.allclose(logits, theirs, rtol=1e-12, atol=1e-12), (logits - theirs).abs().max()
    for name, parameter in model.named_parameters():
        assert torch.allclose(values[name].grad, parameter.grad, rtol=1e-11, atol=1e-13), name
    print("logits and gradients agree with GPT2LMHeadModel")


def write_golden(path, entries):
    types = {np.dtype("<f4"): 0, np.dtype("<i4"): 1}
    head, place = b"CSGOLDEN" + struct.pack("<II", len(entries), 0), 16 + 112 * len(entries)
    body = b""
    for name, array in entries.items():
        place_of_data = -(-(place + len(body)) // 64) * 64
        body += bytes(place_of_data - place - len(body)) + array.tobytes()
        shape = array.shape + (0,) * (4 - array.ndim)
        head += struct.pack("<64sII4qQ", name.encode(), types[array.dtype], array.ndim, *shape, place_of_data)
    with open(path, "wb") as file:
        file.write(head + body)
    print(f"{path}: {len(entries)} entries, {len(head) + len(body)} bytes")


def relative(a, b):
    return ((a.double() - b).abs().max() / b.abs().max()).item()


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "gpt2_tiny.golden")
    compare_with_transformers()
    single, double = train(torch.float32), train(torch.float64)
    inputs, targets = batches()
    entries = {"sizes": np.array([LAYERS, HEADS, WIDTH, POSITIONS, VOCAB], "<i4"),
               "inputs": inputs.numpy().astype("<i4"), "targets": targets.numpy().astype("<i4")}
    for name, value in initial_values().items():
        entries[name] = value.numpy().astype("<f4")
    for suffix, (logits, grads, losses, norms) in (("", single), ("64", double)):
        entries["logits" + suffix] = logits.numpy().astype("<f4")
        for name, grad in grads.items():
            entries[f"grad{suffix}.{name}"] = grad.numpy().astype("<f4")
        entries["losses" + suffix] = losses.numpy().astype("<f4")
        entries["grad_norms" + suffix] = norms.numpy().astype("<f4")
    write_golden(path, entries)
    print(f"float32 from float64, relative: logits {relative(single[0], double[0]):.1e}, gradients at most "
          f"{max(relative(single[1][n], double[1][n]) for n in double[1]):.1e}, "
          f"losses {relative(single[2], double[2]):.1e}; losses {[round(x, 4) for x in double[2].tolist()]}, "
          f"norms {[round(x, 3) for x in double[3].tolist()]}")


if __name__ == "__main__":
    main()
