"""make_lora.py - writes lora_tiny.golden: what PEFT computes for tiny models with LoRA adapters.

usage: python tests/golden/make_lora.py [OUTPUT]

Needs torch, transformers and peft. Runs on the CPU in seconds. The file's format is in make_gpt2.py.

Each case is a config.json (CASE.config) and the section cspeed.lora (CASE.lora), i32 with one character each, the
initial values CASE.NAME of all parameters, those of the adapters included, the gradients of the adapters for the mean
loss of batch 0 (CASE.grad.NAME), and the losses and gradient norms of ten steps (CASE.losses, CASE.grad_norms).
Everything is computed by PEFT in float64 and rounded at the end. A step clips to norm 1.0 and updates the adapters with
AdamW: lr 1e-2, betas 0.9 and 0.95, eps 1e-8, weight decay 0.1. The batches `inputs` and `targets`, i32 (10, 2, 9), are
the same for all.
"""
import json
import os
import sys

import numpy as np
import peft
import torch
import torch.nn.functional as F
import transformers

from make_gpt2 import write_golden

STEPS, BATCH, LENGTH, VOCAB = 10, 2, 9, 37

LLAMA = {"model_type": "llama", "vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 20,
         "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32}
GPT2 = {"model_type": "gpt2", "vocab_size": VOCAB, "n_positions": 16, "n_embd": 12, "n_layer": 1, "n_head": 2,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
CASES = {
    "llama": (LLAMA, {"r": 3, "alpha": 8}),
    "some": (LLAMA, {"r": 2, "alpha": 5, "targets": ["k_proj", "o_proj", "up_proj"], "rslora": True}),
    "gpt2": (GPT2, {"r": 3, "alpha": 8}),
    "all": (GPT2, {"r": 2, "alpha": 3, "targets": "all-linear", "rslora": True}),
}


def model_of(config, lora):
    cut = {key: value for key, value in config.items() if key != "model_type"}
    made = transformers.AutoConfig.for_model(config["model_type"], **cut)
    made._attn_implementation = "eager"
    base = transformers.AutoModelForCausalLM.from_config(made)
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", r=lora["r"], lora_alpha=lora["alpha"],
                                                      target_modules=lora.get("targets"),
                                                      use_rslora=lora.get("rslora", False))).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            value.copy_((0.3 * noise + (1 if "norm" in name or "ln_" in name else 0)).float())
    return model


def named(model):
    """The parameters by cspeed's names."""
    for name, value in model.named_parameters():
        name = name.removeprefix("base_model.model.").replace(".base_layer.", ".").replace(".default.", ".")
        yield name, value


def batches():
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, VOCAB, (STEPS, BATCH, LENGTH + 1), generator=generator)
    return tokens[:, :, :-1].clone(), tokens[:, :, 1:].clone()


def train(model):
    inputs, targets = batches()
    values = {name: value for name, value in named(model) if value.requires_grad}
    optimizer = torch.optim.AdamW(values.values(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    gradients, losses, norms = {}, [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        logits = model(input_ids=inputs[step], use_cache=False).logits
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), targets[step].reshape(-1))
        loss.backward()
        if step == 0:
            gradients = {name: value.grad.clone() for name, value in values.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(values.values(), 1.0).item())
        losses.append(loss.item())
        optimizer.step()
    return gradients, losses, norms


def letters(value):
    return np.array([ord(letter) for letter in json.dumps(value)], "<i4")


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "lora_tiny.golden")
    inputs, targets = batches()
    entries = {"inputs": inputs.numpy().astype("<i4"), "targets": targets.numpy().astype("<i4")}
    for case, (config, lora) in CASES.items():
        model = model_of(config, lora)
        entries[f"{case}.config"], entries[f"{case}.lora"] = letters(config), letters(lora)
        for name, value in named(model):
            entries[f"{case}.{name}"] = value.detach().numpy().astype("<f4")
        gradients, losses, norms = train(model)
        for name, gradient in gradients.items():
            entries[f"{case}.grad.{name}"] = gradient.numpy().astype("<f4")
        entries[f"{case}.losses"] = np.array(losses, "<f4")
        entries[f"{case}.grad_norms"] = np.array(norms, "<f4")
        print(f"{case}: losses {[round(x, 4) for x in losses]}")
    write_golden(path, entries)


if __name__ == "__main__":
    main()
