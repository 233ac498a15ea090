"""make_llama.py - writes llama_tiny.golden: what transformers computes for tiny models of the Llama family.

usage: python tests/golden/make_llama.py [OUTPUT]

Needs torch and transformers. Runs on the CPU in seconds. The file's format is in make_gpt2.py.

Each case is a config.json, written as entry CASE.config (i32, one character each), the initial values CASE.NAME, the
logits of batch 0 (CASE.logits), the gradients of its mean loss (CASE.grad.NAME, of two of
the cases), and the losses and gradient norms before clipping of ten steps (CASE.losses,
CASE.grad_norms). Everything is computed by transformers in float64 and rounded at the end. A step clips to norm 1.0 and
updates with AdamW: lr 1e-3, betas 0.9 and 0.95, eps 1e-8, weight decay 0.1 on parameters of two dimensions. The batches
`inputs` and `targets`, i32 (10, 2, 9), are the same for all; step 7 masks some targets.
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
import transformers

from make_gpt2 import write_golden

STEPS, BATCH, LENGTH, VOCAB = 10, 2, 9, 37

BASE = {"vocab_size": VOCAB, "hidden_size": 20, "intermediate_size": 28, "num_hidden_layers": 2,
        "num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 32,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False, "attention_dropout": 0.0}


def case(kind, **more):
    return {**BASE, "model_type": kind, **more}


CASES = {
    "llama": case("llama", rope_theta=10000.0, hidden_size=24, num_attention_heads=6, num_key_value_heads=3),
    "llama3": case("llama", tie_word_embeddings=True, attention_bias=True, mlp_bias=True, rope_theta=500.0,
                   rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                 "high_freq_factor": 4.0, "original_max_position_embeddings": 16}),
    "linear": case("llama", head_dim=8, num_attention_heads=2, num_hidden_layers=1,
                   rope_scaling={"type": "linear", "factor": 4.0}),
    "yarn": case("llama", head_dim=8, num_attention_heads=2, num_hidden_layers=1,
                 rope_parameters={"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
                                  "original_max_position_embeddings": 8, "beta_fast": 2.0, "beta_slow": 0.5}),
    "mistral": case("mistral", sliding_window=4, num_attention_heads=4, num_key_value_heads=2,
                    rope_theta=1000000.0),
    "qwen2": case("qwen2", use_sliding_window=True, sliding_window=3, max_window_layers=1, tie_word_embeddings=True,
                  num_attention_heads=4, num_key_value_heads=2, hidden_size=16),
    "qwen3": case("qwen3", head_dim=6, num_attention_heads=4, num_key_value_heads=2,
                  rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
}
WITH_GRADIENTS = ("llama3", "qwen3")
del CASES["qwen2"]["head_dim"]


def model_of(config):
    cut = {key: value for key, value in config.items() if key != "model_type"}
    made = transformers.AutoConfig.for_model(config["model_type"], **json.loads(json.dumps(cut)))
    made._attn_implementation = "eager"
    return transformers.AutoModelForCausalLM.from_config(made).double()


def set_values(model):
    """Values large enough that no gradient is near zero: biases and norms are random too."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            scale = 0.3 if value.dim() == 2 else 0.1
            value.copy_((scale * noise + (1 if "norm" in name else 0)).float())


def batches():
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, VOCAB, (STEPS, BATCH, LENGTH + 1), generator=generator)
    inputs, targets = tokens[:, :, :-1].clone(), tokens[:, :, 1:].clone()
    targets[7, 0, 3:6] = -1
    return inputs, targets


def train(model):
    inputs, targets = batches()
    values = dict(model.named_parameters())
    groups = [{"params": [v for v in values.values() if v.dim() >= 2], "weight_decay": 0.1},
              {"params": [v for v in values.values() if v.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    first, gradients, losses, norms = None, {}, [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        logits = model(input_ids=inputs[step], use_cache=False).logits
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), targets[step].reshape(-1), ignore_index=-1)
        loss.backward()
        if step == 0:
            first = logits.detach().clone()
            gradients = {name: value.grad.clone() for name, value in values.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(values.values(), 1.0).item())
        losses.append(loss.item())
        optimizer.step()
    return first, gradients, losses, norms


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "llama_tiny.golden")
    inputs, targets = batches()
    entries = {"inputs": inputs.numpy().astype("<i4"), "targets": targets.numpy().astype("<i4")}
    for name, config in CASES.items():
        model = model_of(config)
        set_values(model)
        text = json.dumps(config)
        entries[f"{name}.config"] = np.array([ord(letter) for letter in text], "<i4")
        for parameter, value in model.named_parameters():
            entries[f"{name}.{parameter}"] = value.detach().numpy().astype("<f4")
        logits, gradients, losses, norms = train(model)
        entries[f"{name}.logits"] = logits.reshape(-1, VOCAB).numpy().astype("<f4")
        for parameter, gradient in gradients.items():
            if name in WITH_GRADIENTS:
                entries[f"{name}.grad.{parameter}"] = gradient.numpy().astype("<f4")
        entries[f"{name}.losses"] = np.array(losses, "<f4")
        entries[f"{name}.grad_norms"] = np.array(norms, "<f4")
        print(f"{name}: losses {[round(x, 4) for x in losses]}")
    write_golden(path, entries)


if __name__ == "__main__":
    main()
