"""make_experts.py - writes experts_tiny.golden: what transformers computes for tiny mixtures of experts.

usage: python tests/golden/make_experts.py [OUTPUT]

Needs torch and transformers 5. Runs on the CPU in seconds. The format and the entries are those of make_llama.py, with the
gradients of all cases. Parameters have the names of published weights: one matrix for each expert (also of
gpt-oss, whose files have one tensor for all experts). With output_router_logits the
losses contain the load-balancing loss, as transformers adds it.
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

from make_gpt2 import write_golden
from make_llama import STEPS, VOCAB, batches, model_of

SMALL = {"vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "pad_token_id": None}
QWEN = {**SMALL, "moe_intermediate_size": 12, "num_experts": 5, "num_experts_per_tok": 3}

CASES = {
    "mix": {"model_type": "mixtral", **SMALL, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4},
    "aux": {"model_type": "mixtral", **SMALL, "num_local_experts": 3, "num_experts_per_tok": 2, "tie_word_embeddings": True,
            "output_router_logits": True, "router_aux_loss_coef": 0.3},
    "qm2": {"model_type": "qwen2_moe", **QWEN, "num_hidden_layers": 4, "decoder_sparse_step": 2, "use_sliding_window": True,
            "sliding_window": 3, "max_window_layers": 3, "shared_expert_intermediate_size": 24, "norm_topk_prob": False},
    "qms": {"model_type": "qwen2_moe", **QWEN, "qkv_bias": False, "shared_expert_intermediate_size": 8, "norm_topk_prob": True,
            "output_router_logits": True, "router_aux_loss_coef": 0.2, "hidden_act": "gelu"},
    "qm3": {"model_type": "qwen3_moe", **QWEN, "num_hidden_layers": 3, "mlp_only_layers": [1], "norm_topk_prob": True,
            "head_dim": 6, "use_sliding_window": True, "sliding_window": 5, "output_router_logits": True,
            "router_aux_loss_coef": 0.1},
    "olm": {"model_type": "olmoe", **SMALL, "num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": True},
    "oss": {"model_type": "gpt_oss", **SMALL, "num_hidden_layers": 3, "head_dim": 6, "num_local_experts": 4,
            "num_experts_per_tok": 2, "sliding_window": 4, "swiglu_limit": 0.8, "output_router_logits": True,
            "router_aux_loss_coef": 0.1,
            "rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8,
                                "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}},
    "qmr": {"model_type": "qwen3_moe", **QWEN, "num_experts_per_tok": 1, "attention_bias": True},
}
MIXTRAL = {"gate": "w1", "up": "w3", "down": "w2"}
QWENS = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}


def set_values(model):
    """As in make_llama.py, also for the matrices of experts."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            scale = 0.3 if value.dim() >= 2 else 0.1
            value.copy_((scale * noise + (1 if "norm" in name else 0)).float())


def published(kind, name, value):
    """The names and values of published weights that a parameter of transformers 5 stands for."""
    mixtral = kind == "mixtral"
    words = MIXTRAL if mixtral else QWENS
    if mixtral:
        name = name.replace(".mlp.", ".block_sparse_moe.")
    if kind == "gpt_oss" and name.endswith("_proj") and ".experts." in name:
        place, word = name.rsplit(".", 1)
        for e, one in enumerate(value):
            yield f"{place}.{e}.{word}.weight", one
    elif name.endswith(".experts.gate_up_proj"):
        place, half = name[:-len("gate_up_proj")], value.shape[1] // 2
        for e, both in enumerate(value):
            yield f"{place}{e}.{words['gate']}.weight", both[:half]
            yield f"{place}{e}.{words['up']}.weight", both[half:]
    elif name.endswith(".experts.down_proj"):
        for e, one in enumerate(value):
            yield f"{name[:-len('down_proj')]}{e}.{words['down']}.weight", one
    else:
        yield name, value


def train(model, config):
    inputs, targets = batches()
    values = dict(model.named_parameters())
    groups = [{"params": [v for v in values.values() if v.dim() >= 2], "weight_decay": 0.1},
              {"params": [v for v in values.values() if v.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    first, gradients, losses, norms = None, {}, [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        out = model(input_ids=inputs[step], use_cache=False)
        loss = F.cross_entropy(out.logits.reshape(-1, VOCAB), targets[step].reshape(-1), ignore_index=-1)
        if config.get("output_router_logits"):
            loss = loss + config["router_aux_loss_coef"] * out.aux_loss
        loss.backward()
        if step == 0:
            first = out.logits.detach().clone()
            gradients = {name: value.grad.clone() for name, value in values.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(values.values(), 1.0).item())
        losses.append(loss.item())
        optimizer.step()
    return first, gradients, losses, norms


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "experts_tiny.golden")
    inputs, targets = batches()
    entries = {"inputs": inputs.numpy().astype("<i4"), "targets": targets.numpy().astype("<i4")}
    for case, config in CASES.items():
        kind = config["model_type"]
        model = model_of({**config, "experts_implementation": "eager"})
        set_values(model)
        entries[f"{case}.config"] = np.array([ord(letter) for letter in json.dumps(config)], "<i4")
        for name, value in model.named_parameters():
            for own, part in published(kind, name, value):
                entries[f"{case}.{own}"] = part.detach().numpy().astype("<f4")
        logits, gradients, losses, norms = train(model, config)
        entries[f"{case}.logits"] = logits.reshape(-1, VOCAB).numpy().astype("<f4")
        for name, gradient in gradients.items():
            for own, part in published(kind, name, gradient):
                entries[f"{case}.grad.{own}"] = part.numpy().astype("<f4")
        entries[f"{case}.losses"] = np.array(losses, "<f4")
        entries[f"{case}.grad_norms"] = np.array(norms, "<f4")
        print(f"{case}: losses {[round(x, 4) for x in losses]}")
    longest = max(entries, key=len)
    assert len(longest) < 64, longest
    write_golden(path, entries)


if __name__ == "__main__":
    main()
