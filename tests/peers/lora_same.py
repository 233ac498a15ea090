"""lora_same.py - LoRA in cspeed and in PEFT: ten losses, the merged weights, and folders that each reads of the other.

usage: python tests/peers/lora_same.py [--bin build/bin] [--ranks 1] [--stage 0] [--steps 10] [--bound 1e-6] [KIND ...]

For each kind of model (all of KINDS without an argument) this script makes a small random model and an adapter folder
of PEFT whose B is not zero. cspeed trains from both, in fp32 and without dropout: AdamW, lr 1e-2, betas 0.9 and 0.999,
eps 1e-8, weight decay 0.1, no clipping, a constant rate, batches of 4 sequences of 16 tokens. PEFT trains the same
tokens in the same order. Compared, relative to the largest magnitude: every loss, the adapter that cspeed exports (opened
by PeftModel.from_pretrained) with PEFT's, the logits of both, cspeed's merged export with merge_and_unload, and the loss
of `eval --adapter` on the folder that PEFT writes. Ends with 1 where one differs by more than --bound (weights: 100
times that, because AdamW's first steps divide by the gradient's size). Needs torch, transformers, peft and safetensors.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import peft
import torch
import transformers

VOCAB, LENGTH, BATCH, RATE, DECAY = 61, 16, 4, 1e-2, 0.1
SMALL = {"vocab_size": VOCAB, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
GPT2 = {"vocab_size": VOCAB, "n_positions": 64, "n_embd": 24, "n_layer": 2, "n_head": 3, "bos_token_id": 0,
        "eos_token_id": 0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
NEOX = {"vocab_size": VOCAB, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 3, "max_position_embeddings": 64, "rotary_pct": 0.5}
TIED = {**SMALL, "tie_word_embeddings": True}
KINDS = {
    "gpt2": ("gpt2", GPT2, {"r": 4, "lora_alpha": 16}),
    "gpt2-all": ("gpt2", GPT2, {"r": 2, "lora_alpha": 3, "target_modules": "all-linear", "use_rslora": True}),
    "llama": ("llama", SMALL, {"r": 4, "lora_alpha": 8}),
    "llama-all": ("llama", TIED, {"r": 3, "lora_alpha": 8, "target_modules": "all-linear"}),
    "llama-some": ("llama", SMALL, {"r": 3, "lora_alpha": 8, "target_modules": ["k_proj", "down_proj", "up_proj"]}),
    "qwen3": ("qwen3", {**SMALL, "head_dim": 10}, {"r": 4, "lora_alpha": 8, "use_rslora": True}),
    "gpt_neox": ("gpt_neox", NEOX, {"r": 4, "lora_alpha": 8}),
    "gemma2": ("gemma2", {**SMALL, "head_dim": 8, "pad_token_id": 60}, {"r": 4, "lora_alpha": 8}),
    "gpt2-bias": ("gpt2", GPT2, {"r": 4, "lora_alpha": 16, "bias": "all"}),
    "gpt2-dora": ("gpt2", GPT2, {"r": 4, "lora_alpha": 16, "bias": "lora_only", "use_dora": True,
                                 "target_modules": "all-linear"}),
    "llama-dora": ("llama", SMALL, {"r": 4, "lora_alpha": 8, "use_dora": True}),
    "qwen2-bias": ("qwen2", SMALL, {"r": 4, "lora_alpha": 8, "bias": "lora_only",
                                    "target_modules": ["q_proj", "k_proj", "v_proj"]}),
    "qwen2-dora": ("qwen2", SMALL, {"r": 2, "lora_alpha": 8, "bias": "all", "use_dora": True,
                                    "target_modules": "all-linear"}),
    "llama-patterns": ("llama", SMALL, {"r": 4, "lora_alpha": 8, "use_rslora": True, "target_modules": "all-linear",
                                        "rank_pattern": {"q_proj|k_proj": 2, r"^model\.layers\.1\.mlp\..*": 5},
                                        "alpha_pattern": {"self_attn.v_proj": 3, r"layers\.\d+\.mlp.down_proj": 20}}),
    "llama-regex": ("llama", SMALL, {"r": 3, "lora_alpha": 8, "target_modules": r".*\.1\.self_attn\.(q|o)_proj|.*up_proj"}),
    "llama-layers": ("llama", SMALL, {"r": 3, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"],
                                      "layers_to_transform": [1], "layers_pattern": ["h", "layers"]}),
    "llama-excluded": ("llama", SMALL, {"r": 3, "lora_alpha": 8, "target_modules": "all-linear",
                                        "exclude_modules": r".*layers\.0.*_proj"}),
    "gpt2-layers": ("gpt2", GPT2, {"r": 4, "lora_alpha": 16, "layers_to_transform": 0, "rank_pattern": {"c_attn": 6},
                                   "target_modules": ["c_attn", "c_proj"], "exclude_modules": ["attn.c_proj"]}),
    "qwen2-patterns": ("qwen2", SMALL, {"r": 2, "lora_alpha": 8, "bias": "lora_only", "use_dora": True,
                                        "target_modules": ["k_proj", "q_proj", "v_proj"], "rank_pattern": {"k_proj": 7},
                                        "alpha_pattern": {"1.self_attn.q_proj": 2}}),
    "llama-saved": ("llama", SMALL, {"r": 4, "lora_alpha": 8, "modules_to_save": ["embed_tokens", "lm_head", "norm"],
                                     "target_modules": "all-linear"}),
    "llama-table": ("llama", TIED, {"r": 4, "lora_alpha": 8, "modules_to_save": ["embed_tokens"]}),
    "llama-head": ("llama", TIED, {"r": 4, "lora_alpha": 8, "modules_to_save": ["lm_head"]}),
    "llama-both": ("llama", TIED, {"r": 4, "lora_alpha": 8, "modules_to_save": ["embed_tokens", "lm_head"]}),
    "llama-tied": ("llama", TIED, {"r": 4, "lora_alpha": 8, "modules_to_save": ["embed_tokens"],
                                   "ensure_weight_tying": True}),
    "gpt2-saved": ("gpt2", GPT2, {"r": 4, "lora_alpha": 16, "modules_to_save": ["wte", "ln_f", "0.mlp.c_proj"],
                                  "target_modules": ["c_attn", "c_proj"], "bias": "lora_only"}),
    "gpt_neox-saved": ("gpt_neox", NEOX, {"r": 4, "lora_alpha": 8, "modules_to_save": ["embed_in", "lm_head"]}),
    "gemma2-saved": ("gemma2", {**SMALL, "head_dim": 8, "pad_token_id": 60},
                     {"r": 4, "lora_alpha": 8, "modules_to_save": ["embed_tokens", "lm_head"]}),
    "phi3-all": ("phi3", {**SMALL, "pad_token_id": 60}, {"r": 3, "lora_alpha": 8, "target_modules": "all-linear"}),
}


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--bound", type=float, default=1e-6)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    return parser.parse_args()


def shake(parameters, scale, generator):
    with torch.no_grad():
        for value in parameters:
            value.add_(scale * torch.randn(value.shape, generator=generator))


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def make(folder, kind):
    """The base model and the first adapter, as folders; the tokens, as a token shard."""
    family, sizes, lora = KINDS[kind]
    generator = torch.Generator().manual_seed(7)
    base = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(family, **sizes))
    shake(base.parameters(), 0.1, generator)
    base.save_pretrained(f"{folder}/base")
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **lora))
    shake([value for value in model.parameters() if value.requires_grad], 0.05, generator)
    model.save_pretrained(f"{folder}/adapter")
    return model


def cspeed_losses(chosen, folder, inputs_per_step):
    def config(name, more):
        path = f"{folder}/{name}.json"
        with open(path, "w") as file:
            json.dump({
                "train_batch_size": BATCH, "gradient_accumulation_steps": 1, "gradient_clipping": 0,
                "zero_optimization": {"stage": chosen.stage}, "scheduler": None,
                "optimizer": {"type": "AdamW", "params": {"lr": RATE, "betas": [0.9, 0.999], "eps": 1e-8,
                                                          "weight_decay": DECAY}},
                # PyTorch decays vectors too
                "cspeed": {"param_groups": [{"params": "*", "weight_decay": DECAY}],
                           "model": f"{folder}/base", "lora": {"adapter": f"{folder}/adapter"},
                           "data": {"train": f"{folder}/train.bin", "valid": [], "seq_len": LENGTH, "shuffle": False},
                           "steps": chosen.steps, "threads": 1, "output": f"{folder}/run", "save_interval": 0,
                           "eval_interval": 0, "export": f"{folder}/exported", "metrics": "metrics.jsonl", **more}},
                      file)
        return path

    command = [f"{chosen.bin}/train", "--config", config("run", {})]
    if chosen.ranks > 1:
        command = [f"{chosen.bin}/cspeed", "--num_gpus", str(chosen.ranks), "--oversubscribe"] + command
    call(*command)
    call(f"{chosen.bin}/cspeed", "export", f"{folder}/run", f"{folder}/merged", "--merge")
    with open(f"{folder}/run/metrics.jsonl") as file:
        lines = [json.loads(line) for line in file]
    return [line["loss"] for line in lines if line.get("loss") is not None and "lr" in line]


def loss_of(model, inputs, targets):
    logits = model(input_ids=inputs).logits.float()
    return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))


def peft_losses(model, inputs, targets):
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=DECAY)
    losses = []
    for step in range(len(inputs)):
        loss = loss_of(model, inputs[step], targets[step])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def without_key_bias(name, value):
    """Softmax does not change with the bias of the keys: its gradient is rounding alone, which AdamW magnifies."""
    if name.endswith(("c_attn.bias", "c_attn.base_layer.bias")):
        return torch.cat([value.chunk(3)[0], value.chunk(3)[2]])
    return torch.zeros(1) if "k_proj" in name and name.endswith(".bias") else value


def furthest(one, other):
    """The largest difference of two dicts of tensors, relative to each tensor's largest magnitude."""
    if one.keys() != other.keys():
        sys.exit(f"other tensors: {sorted(one.keys() ^ other.keys())}")
    pairs = [[without_key_bias(name, each[name]) for each in (one, other)] for name in one]
    return max(((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item() for a, b in pairs)


def compare(chosen, kind, folder):
    tokens = np.random.default_rng(5).integers(VOCAB, size=chosen.steps * BATCH * LENGTH + 1).astype("<u2")
    tokens.tofile(f"{folder}/train.bin")
    tokens[:2 * LENGTH + 1].tofile(f"{folder}/valid.bin")
    ids = torch.from_numpy(tokens.astype(np.int64))
    inputs = ids[:-1].reshape(chosen.steps, BATCH, LENGTH)
    targets = ids[1:].reshape(chosen.steps, BATCH, LENGTH)
    model = make(folder, kind)
    ours = cspeed_losses(chosen, folder, inputs)
    theirs = peft_losses(model, inputs, targets)
    model.eval()
    model.save_pretrained(f"{folder}/theirs")
    scores = json.loads(call(f"{chosen.bin}/eval", f"{folder}/base", "--adapter", f"{folder}/theirs", "--data",
                             f"{folder}/valid.bin", "--seq_len", str(LENGTH), "--json"))
    base = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/base", dtype=torch.float32)
    opened = peft.PeftModel.from_pretrained(base, f"{folder}/exported").eval()
    with torch.no_grad():
        expected = loss_of(model, inputs[0, :2], targets[0, :2]).item()
        logits = [each(input_ids=inputs[0]).logits for each in (opened, model)]
    adapters = [{name: value for name, value in peft.get_peft_model_state_dict(each).items()}
                for each in (opened, model)]
    merged = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/merged", dtype=torch.float32)
    differences = {
        "losses": max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True)),
        "eval": abs(scores["loss"] - expected) / expected,
        "adapter": furthest(*adapters) / 100,
        "logits": ((logits[0] - logits[1]).abs().max() / logits[1].abs().max()).item() / 100,
        "merged": furthest(merged.state_dict(), model.merge_and_unload().state_dict()) / 100,
    }
    print(f"{kind}: " + ", ".join(f"{name} {value:.1e}" for name, value in differences.items()), flush=True)
    return max(differences.values()) <= chosen.bound


def main():
    chosen = options()
    torch.set_num_threads(1)
    same = True
    for kind in chosen.kinds:
        with tempfile.TemporaryDirectory() as folder:
            same &= compare(chosen, kind, folder)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
