"""make_families.py - writes what transformers computes for tiny models: families_tiny.golden (the families of
engine/models/neox.c and variants.c, Gemma 2 and 3, and variants of GPT-2) and families_newer.golden (relatives.c, cohere.c
and other families that came later; made with transformers 5.24).

usage: python tests/golden/make_families.py FILE [OUTPUT]

FILE is one of the two names. Needs torch and transformers. Runs on the CPU in seconds. The format and the entries are those of make_llama.py, with the
gradients of all cases. No case has a padding token: transformers gives its embedding no gradient, and cspeed does.
"""
import json
import os
import sys

import numpy as np
import torch

from make_gpt2 import write_golden
from make_llama import VOCAB, batches, model_of, set_values, train

SMALL = {"vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.2}
KEYS = {**SMALL, "pad_token_id": None, "num_key_value_heads": 2, "rms_norm_eps": 1e-5}
GEMMA = {**KEYS, "head_dim": 6, "num_hidden_layers": 3, "query_pre_attn_scalar": 9, "sliding_window": 4}
FALCON = {key: value for key, value in SMALL.items() if key != "intermediate_size"}
GPT2 = {"model_type": "gpt2", "vocab_size": VOCAB, "n_positions": 64, "n_embd": 16, "n_layer": 3, "n_head": 4, "n_inner": 20,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": 0.2}
LONG = {"type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.0, 2.5, 4.0]}
COHERE = {**SMALL, "pad_token_id": None, "num_key_value_heads": 2, "logit_scale": 0.3}
PHI = {**KEYS, "hidden_size": 32, "partial_rotary_factor": 0.75}

CASES = {
    "neox": {"model_type": "gpt_neox", **SMALL, "hidden_size": 32},
    "neot": {"model_type": "gpt_neox", **SMALL, "rotary_pct": 1.0, "use_parallel_residual": False,
                 "attention_bias": False, "rotary_emb_base": 100, "hidden_act": "gelu_fast"},
    "gem2": {"model_type": "gemma2", **GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    "gem3": {"model_type": "gemma3_text", **GEMMA, "sliding_window_pattern": 3, "rope_theta": 500.0,
             "rope_local_base_freq": 20.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "phi": {"model_type": "phi3", **PHI, "sliding_window": 5},
    "phishort": {"model_type": "phi3", **PHI, "rope_scaling": LONG, "original_max_position_embeddings": 16},
    "philong": {"model_type": "phi3", **PHI, "rope_scaling": LONG, "original_max_position_embeddings": 8,
                "tie_word_embeddings": True},
    "olmo": {"model_type": "olmo2", **KEYS},
    "granite": {"model_type": "granite", **KEYS, "embedding_multiplier": 3.0, "residual_multiplier": 0.4,
                "attention_multiplier": 0.3, "logits_scaling": 2.5, "tie_word_embeddings": True},
    "star": {"model_type": "starcoder2", **SMALL, "num_key_value_heads": 2, "sliding_window": 4},
    "fal": {"model_type": "falcon", **FALCON, "new_decoder_architecture": True, "num_kv_heads": 2},
    "falo": {"model_type": "falcon", **FALCON, "new_decoder_architecture": True, "num_kv_heads": 2,
             "num_ln_in_parallel_attn": 1, "bias": True},
    "falq": {"model_type": "falcon", **FALCON, "ffn_hidden_size": 20},
    "fals": {"model_type": "falcon", **FALCON, "parallel_attn": False, "multi_query": False, "activation": "relu",
                "tie_word_embeddings": False},
    "gptlayer": {**GPT2, "scale_attn_by_inverse_layer_idx": True, "activation_function": "quick_gelu"},
    "gptrelu": {**GPT2, "scale_attn_weights": False, "activation_function": "relu2"},
}

NEWER = {
    "gem1": {"model_type": "gemma", **KEYS, "head_dim": 6, "hidden_act": "gelu"},
    "smol": {"model_type": "smollm3", **KEYS, "num_hidden_layers": 3, "no_rope_layer_interval": 2, "tie_word_embeddings": False},
    "smolw": {"model_type": "smollm3", **KEYS, "num_hidden_layers": 3, "no_rope_layers": [0, 1, 0], "use_sliding_window": True,
              "sliding_window": 4},
    "olm3": {"model_type": "olmo3", **KEYS, "num_hidden_layers": 4, "sliding_window": 4, "rope_theta": 100.0,
             "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}},
    "seed": {"model_type": "seed_oss", **KEYS, "head_dim": 6, "attention_dropout": 0.0, "residual_dropout": 0.0},
    "seedo": {"model_type": "seed_oss", **KEYS, "head_dim": 8, "attention_dropout": 0.0, "residual_dropout": 0.0,
              "attention_bias": False, "attention_out_bias": True, "mlp_bias": True},
    "arcee": {"model_type": "arcee", **KEYS},
    "intern": {"model_type": "internlm3", **KEYS, "head_dim": 6, "qkv_bias": True, "bias": True},
    "ernie": {"model_type": "ernie4_5", **KEYS, "head_dim": 6, "use_bias": True, "tie_word_embeddings": False},
    "cohe": {"model_type": "cohere", **COHERE, "attention_bias": True},
    "coh2": {"model_type": "cohere2", **COHERE, "num_hidden_layers": 3, "sliding_window": 4, "sliding_window_pattern": 3,
             "tie_word_embeddings": False},
    "glm": {"model_type": "glm", **KEYS, "head_dim": 8, "attention_bias": False},
    "glm4": {"model_type": "glm4", **KEYS, "head_dim": 8},
    "mins": {"model_type": "ministral", **KEYS, "head_dim": 6, "num_hidden_layers": 3, "sliding_window": 4,
             "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "min3": {"model_type": "ministral3", **KEYS, "head_dim": 8,
             "rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16,
                                 "beta_fast": 2.0, "beta_slow": 0.5, "mscale": 1.0, "mscale_all_dim": 1.0,
                                 "llama_4_scaling_beta": 0.1}},
    "huny": {"model_type": "hunyuan_v1_dense", **KEYS, "head_dim": 6,
             "rope_scaling": {"type": "dynamic", "alpha": 50.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                              "mscale_all_dim": 1.0}},
    "phi2": {"model_type": "phi", **SMALL, "hidden_size": 32},
    "phik": {"model_type": "phi", **SMALL, "num_key_value_heads": 2, "partial_rotary_factor": 1.0, "hidden_act": "relu"},
}
FILES = {"families_tiny.golden": CASES, "families_newer.golden": NEWER}


def name_here(case, name):
    """Folders of GPT-NeoX, and cspeed, call the head embed_out."""
    return name.replace("lm_head.", "embed_out.") if case["model_type"] == "gpt_neox" else name


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[2] if len(sys.argv) > 2 else os.path.join(here, sys.argv[1])
    inputs, targets = batches()
    entries = {"inputs": inputs.numpy().astype("<i4"), "targets": targets.numpy().astype("<i4")}
    for case, config in FILES[sys.argv[1]].items():
        model = model_of(config)
        set_values(model)
        if config["model_type"].startswith("gemma"):  # whose factors are 1 + weight
            with torch.no_grad():
                for name, value in model.named_parameters():
                    value -= 1 if "norm" in name else 0
        entries[f"{case}.config"] = np.array([ord(letter) for letter in json.dumps(config)], "<i4")
        for name, value in model.named_parameters():
            entries[f"{case}.{name_here(config, name)}"] = value.detach().numpy().astype("<f4")
        logits, gradients, losses, norms = train(model)
        entries[f"{case}.logits"] = logits.reshape(-1, VOCAB).numpy().astype("<f4")
        for name, gradient in gradients.items():
            entries[f"{case}.grad.{name_here(config, name)}"] = gradient.numpy().astype("<f4")
        entries[f"{case}.losses"] = np.array(losses, "<f4")
        entries[f"{case}.grad_norms"] = np.array(norms, "<f4")
        print(f"{case}: losses {[round(x, 4) for x in losses]}")
    longest = max(entries, key=len)
    assert len(longest) < 64, longest
    write_golden(path, entries)


if __name__ == "__main__":
    main()
