"""dpo_same.py - preference training by cspeed and by TRL's DPOTrainer: losses, rewards and log-probabilities, step by step.

usage: python tests/peers/dpo_same.py [--train build/bin/train] [--launcher build/bin/cspeed] [--ranks 1] [--stage 0]
           [--bound 1e-6] [--golden OUTPUT]

Makes a tiny Llama with a tokenizer and a chat template, and files of pairs: texts, texts whose prompt is implicit,
conversations, and conversations whose prompt is implicit; some answers are truncated, and one prompt is too long and left
out. For each file, loss_type sigmoid, and for the texts also each other loss and option of KINDS, both train ten steps of 8
pairs (2 x 4 accumulated) in float32, in the order of the file. Prints the largest difference of a loss, relative to 1 or to the loss
where that is greater, of a log-probability, relative to the largest magnitude, and of a reward, relative to beta times
the largest log-probability, since it is beta times a difference of two of them; ends with 1 where one is above --bound
(three times as much for the losses in STEEP).
A further run of the texts takes another model as its reference.
FREE_KINDS are compared with TRL's CPOTrainer, which has no reference model.

--golden writes what test_preference holds cspeed to where there is no Python, in the format of tests/golden/make_gpt2.py:
    config                   i32, one character each: the model's config.json
    first.NAME               f32, the model's first values
    inputs, targets          i32 (10, 4, 4, T): steps, micro-batches, sequences (chosen, rejected, chosen, rejected)
    references, ld_alpha.references  f32 (10, 4, 4): of all trainings but ld_alpha, and of ld_alpha
    free.inputs, free.targets  as inputs and targets, of the trainings without a reference model
    KIND.losses, KIND.rewards, KIND.logps  f32 (10), (10, 2), (10, 2): chosen, rejected
Needs torch, transformers, tokenizers, datasets and trl (1.16.0 was the version of the committed figures).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))

STEPS, PAIRS, MICRO, LENGTH = 10, 8, 2, 40
RATE, BETA = 1e-3, 0.1
# name: keys of DPOConfig, which are also keys of cspeed.dpo
KINDS = {
    "sigmoid": {}, "hinge": {"loss_type": ["hinge"]}, "ipo": {"loss_type": ["ipo"]},
    "robust": {"loss_type": ["robust"], "label_smoothing": 0.1},
    "exo_pair": {"loss_type": ["exo_pair"], "label_smoothing": 1e-3},
    "nca_pair": {"loss_type": ["nca_pair"]}, "bco_pair": {"loss_type": ["bco_pair"]},
    "sppo_hard": {"loss_type": ["sppo_hard"]}, "aot": {"loss_type": ["aot"]},
    "aot_unpaired": {"loss_type": ["aot_unpaired"], "label_smoothing": 0.1},
    "apo_zero": {"loss_type": ["apo_zero"]}, "apo_down": {"loss_type": ["apo_down"]},
    "discopop": {"loss_type": ["discopop"]}, "sft": {"loss_type": ["sft"]}, "sigmoid_norm": {"loss_type": ["sigmoid_norm"]},
    "list": {"loss_type": ["sigmoid", "bco_pair", "sft"], "loss_weights": [0.8, 0.2, 1.0]},
    "ld_alpha": {"loss_type": ["sigmoid", "sft"], "ld_alpha": 0.3},
    "forward_kl": {"f_divergence_type": "forward_kl"}, "js_divergence": {"f_divergence_type": "js_divergence"},
    "alpha_divergence": {"loss_type": ["ipo", "hinge"], "f_divergence_type": "alpha_divergence",
                         "f_alpha_divergence_coef": 0.7},
}
# name: keys of CPOConfig, which are also keys of cspeed.dpo with reference_free
FREE_KINDS = {
    "cpo": {"loss_type": "sigmoid", "cpo_alpha": 1.0, "label_smoothing": 0.1},
    "cpo_hinge": {"loss_type": "hinge", "cpo_alpha": 0.0}, "cpo_ipo": {"loss_type": "ipo", "cpo_alpha": 0.0},
    "simpo": {"loss_type": "simpo", "cpo_alpha": 0.5, "simpo_gamma": 0.3, "label_smoothing": 0.1},
}
# These losses multiply the rounding of a log-probability in float32, by 2 (rc - 5) and by e^(beta / tau).
STEEP = ("sppo_hard", "discopop")
NAMES = ("rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected")
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
NOUNS = ("river", "lamp", "garden", "clock", "bridge", "letter", "window", "mountain", "boat", "song")
VERBS = ("carries", "follows", "answers", "watches", "remembers", "crosses", "paints")


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", default="build/bin/train")
    parser.add_argument("--launcher", default="build/bin/cspeed")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--bound", type=float, default=1e-6)
    parser.add_argument("--golden")
    return parser.parse_args()


# ---- the model and the data ----

def sentence(generator, words):
    return " ".join(str(generator.choice(NOUNS if i % 2 == 0 else VERBS)) for i in range(words))


def make_model(folder, seed):
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    generator = np.random.default_rng(3)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=["<|end|>", "<|im_start|>", "<|im_end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([sentence(generator, 12) for _ in range(200)], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(vocab_size=len(fast), hidden_size=24, intermediate_size=32, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                                      initializer_range=0.2, tie_word_embeddings=False, eos_token_id=0, bos_token_id=None)
    transformers.LlamaForCausalLM(config).float().save_pretrained(folder)


def rows_of(kind):
    """The lines of a file of pairs: 80, and one whose prompt is too long."""
    generator = np.random.default_rng(7)
    rows = []
    for i in range(STEPS * PAIRS + 1):
        prompt = sentence(generator, 60 if i == 5 else int(generator.integers(2, 8)))
        chosen, rejected = (" " + sentence(generator, int(generator.integers(1, 30 if i % 9 == 4 else 10)))
                            for _ in range(2))
        if kind == "texts":
            rows.append({"prompt": prompt, "chosen": chosen, "rejected": rejected})
        elif kind == "implicit":
            rows.append({"chosen": prompt + " A" + chosen, "rejected": prompt + " B" + rejected})
        else:
            asked = [{"role": "system", "content": "Be brief."}] if i % 2 else []
            asked = asked + [{"role": "user", "content": prompt}]
            answers = [[{"role": "assistant", "content": answer[1:]}] for answer in (chosen, rejected)]
            if kind == "chats":
                rows.append({"prompt": asked, "chosen": answers[0], "rejected": answers[1]})
            else:
                rows.append({"chosen": asked + answers[0], "rejected": asked + answers[1]})
    return rows


# ---- TRL ----

def train_trl(folder, model, reference, rows, kind):
    """Returns the numbers of each micro-batch, and the micro-batches."""
    import torch
    from datasets import Dataset
    from torch.utils.data import SequentialSampler
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import DPOConfig, DPOTrainer

    class InOrder(DPOTrainer):
        seen, batches = [], []

        def _get_train_sampler(self, dataset=None):
            return SequentialSampler(self.train_dataset)

        def compute_loss(self, model, inputs, *args, **kwargs):
            loss = super().compute_loss(model, inputs, *args, **kwargs)
            self.seen.append({"loss": loss.item(), **{name: self._metrics["train"][name][-1] for name in NAMES}})
            self.batches.append({name: value.clone() for name, value in inputs.items()})
            return loss

    InOrder.seen, InOrder.batches = [], []
    arguments = DPOConfig(output_dir=os.path.join(folder, "trl"), per_device_train_batch_size=MICRO,
                          gradient_accumulation_steps=PAIRS // MICRO, max_steps=STEPS, learning_rate=RATE,
                          lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0, logging_steps=1, bf16=False,
                          use_cpu=True, gradient_checkpointing=False, max_length=LENGTH, beta=BETA, report_to=[],
                          save_strategy="no", disable_tqdm=True, precompute_ref_log_probs=True, **KINDS[kind])
    trainer = InOrder(model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
                      ref_model=AutoModelForCausalLM.from_pretrained(reference, dtype=torch.float32) if reference else None,
                      args=arguments, train_dataset=Dataset.from_list(rows),
                      processing_class=AutoTokenizer.from_pretrained(model))
    trainer.train()
    return InOrder.seen, InOrder.batches


def train_cpo(folder, model, rows, kind):
    """As train_trl, by CPOTrainer."""
    import torch
    from datasets import Dataset
    from torch.utils.data import SequentialSampler
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    class InOrder(CPOTrainer):
        seen, batches = [], []

        def _get_train_sampler(self, dataset=None):
            return SequentialSampler(self.train_dataset)

        def get_batch_loss_metrics(self, model, batch, train_eval="train"):
            loss, metrics = super().get_batch_loss_metrics(model, batch, train_eval)
            self.seen.append({"loss": loss.item(), **{name: metrics[name] for name in NAMES}})
            self.batches.append(batch)
            return loss, metrics

    InOrder.seen, InOrder.batches = [], []
    arguments = CPOConfig(output_dir=os.path.join(folder, "trl"), per_device_train_batch_size=MICRO,
                          gradient_accumulation_steps=PAIRS // MICRO, max_steps=STEPS, learning_rate=RATE,
                          lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0, logging_steps=1, bf16=False,
                          use_cpu=True, gradient_checkpointing=False, max_length=LENGTH, beta=BETA, report_to=[],
                          save_strategy="no", disable_tqdm=True, **FREE_KINDS[kind])
    trainer = InOrder(model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), args=arguments,
                      train_dataset=Dataset.from_list(rows), processing_class=AutoTokenizer.from_pretrained(model))
    trainer.train()
    return InOrder.seen, InOrder.batches


# ---- cspeed ----

def train_cspeed(chosen, folder, model, reference, rows, kind, name):
    data, path, output = (os.path.join(folder, name + end) for end in (".jsonl", ".json", ""))
    with open(data, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    config = {
        "train_batch_size": PAIRS, "train_micro_batch_size_per_gpu": MICRO, "gradient_clipping": 1.0,
        "zero_optimization": {"stage": chosen.stage},
        "optimizer": {"type": "AdamW", "params": {"lr": RATE, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0}},
        "cspeed": {"model": model, "steps": STEPS, "threads": 1, "output": output, "save_interval": 0, "eval_interval": 0,
                   "dpo": {"beta": BETA, "reference": reference, **({"reference_free": True, **FREE_KINDS[kind]}
                                                                    if kind in FREE_KINDS else KINDS[kind])},
                   "data": {"train": data, "seq_len": LENGTH, "shuffle": False}}}
    with open(path, "w") as file:
        json.dump(config, file)
    command = [chosen.train, "--config", path]
    if chosen.ranks > 1:
        command = [chosen.launcher, "--num_gpus", str(chosen.ranks), "--oversubscribe"] + command
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    with open(os.path.join(output, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file]


# ---- comparison ----

def steps_of(seen, key):
    """The mean over the micro-batches of each step."""
    return np.array([one[key] for one in seen], dtype=np.float64).reshape(STEPS, -1).mean(axis=1)


def compare(name, trl, cspeed, bound):
    ours = np.array([line["loss"] for line in cspeed])
    theirs = steps_of(trl, "loss")
    worst = {"loss": np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(theirs)))}
    most = max(np.max(np.abs(steps_of(trl, "logps/chosen"))), np.max(np.abs(steps_of(trl, "logps/rejected"))))
    for key in NAMES:
        ours, theirs = np.array([line[key] for line in cspeed]), steps_of(trl, key)
        scale = most if key.startswith("logps") else 1 if key.endswith("accuracies") else BETA * most
        worst[key] = np.max(np.abs(ours - theirs)) / scale
    print(f"{name:22}", "  ".join(f"{key} {value:.1e}" for key, value in worst.items()), flush=True)
    return all(value <= bound for value in worst.values())


def references_of(batch, order):
    import torch

    return torch.cat([batch["ref_chosen_logps"], batch["ref_rejected_logps"]])[order].numpy()


def free_entries(free):
    """The entries of the trainings without a reference model."""
    batches = free["simpo"][1]
    inputs, targets = np.zeros((2, len(batches), 2 * MICRO, LENGTH), dtype=np.int32)
    targets[:] = -1
    for i, batch in enumerate(batches):
        for at in range(2 * MICRO):
            answer = ("chosen", "rejected")[at % 2]
            ids, labels = batch[answer + "_input_ids"][at // 2], batch[answer + "_labels"][at // 2]
            mask = batch[answer + "_attention_mask"][at // 2] == 1
            length = int(mask.sum())
            inputs[i, at, :length] = ids[:length]
            targets[i, at, :length - 1] = np.where(labels[1:length] >= 0, labels[1:length], -1)
    shape = (STEPS, -1, 2 * MICRO, LENGTH)
    return {"free.inputs": inputs.reshape(shape), "free.targets": targets.reshape(shape), **figures(free)}


def figures(results):
    entries = {}
    for kind, (seen, _) in results.items():
        entries[kind + ".losses"] = steps_of(seen, "loss").astype(np.float32)
        for what in ("rewards", "logps"):
            both = [steps_of(seen, f"{what}/{answer}") for answer in ("chosen", "rejected")]
            entries[f"{kind}.{what}"] = np.stack(both, axis=1).astype(np.float32)
    return entries


def write_golden_file(path, model, results, free):
    import torch
    from make_gpt2 import write_golden
    from safetensors.torch import load_file

    batches = results["sigmoid"][1]
    rows = 2 * MICRO
    inputs, targets = np.zeros((2, len(batches), rows, LENGTH), dtype=np.int32)
    targets[:] = -1
    order = [half * MICRO + b for b in range(MICRO) for half in range(2)]  # TRL puts all chosen answers first
    references = {key: np.stack([references_of(batch, order) for batch in results[kind][1]])
                  for key, kind in (("references", "sigmoid"), ("ld_alpha.references", "ld_alpha"))}
    for i, batch in enumerate(batches):
        ids, mask = batch["input_ids"][order], batch["completion_mask"][order]
        length = ids.shape[1]
        inputs[i, :, :length] = ids
        targets[i, :, :length - 1] = torch.where(mask[:, 1:] == 1, ids[:, 1:], -1)
    shape = (STEPS, -1, rows)
    with open(os.path.join(model, "config.json")) as file:
        config = file.read()
    entries = {"config": np.array([ord(c) for c in config], dtype=np.int32),
               "inputs": inputs.reshape(*shape, LENGTH), "targets": targets.reshape(*shape, LENGTH),
               **{key: value.reshape(shape) for key, value in references.items()}}
    for name, value in load_file(os.path.join(model, "model.safetensors")).items():
        entries["first." + name] = value.numpy()
    write_golden(path, {**entries, **figures(results), **free_entries(free)})


def main():
    chosen = options()
    good, results, free = True, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        model, other = os.path.join(folder, "model"), os.path.join(folder, "other")
        make_model(model, 1)
        make_model(other, 2)
        runs = [("texts", kind, None) for kind in KINDS] + [("texts", "sigmoid", other)]
        runs += [(form, "sigmoid", None) for form in ("implicit", "chats", "implicit chats")]
        for form, kind, reference in runs:
            name = f"{form} {kind}{' reference' if reference else ''}"
            trl = train_trl(folder, model, reference, rows_of(form), kind)
            cspeed = train_cspeed(chosen, folder, model, reference, rows_of(form), kind, name.replace(" ", "_"))
            good &= compare(name, trl[0], cspeed, chosen.bound * (3 if kind in STEEP else 1))
            if form == "texts" and not reference:
                results[kind] = trl
        rows = rows_of("texts")
        rows.pop(5)  # CPOTrainer keeps a pair whose prompt is too long
        for kind in FREE_KINDS:
            free[kind] = train_cpo(folder, model, rows, kind)
            cspeed = train_cspeed(chosen, folder, model, None, rows, kind, kind)
            good &= compare(kind, free[kind][0], cspeed, chosen.bound)
        if chosen.golden:
            write_golden_file(chosen.golden, model, results, free)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
