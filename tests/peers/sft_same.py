"""sft_same.py - supervised fine-tuning on answers only, by cspeed and by TRL's SFTTrainer: the same losses, step by
step.

usage: python tests/peers/sft_same.py [--build build/bin] [--steps 20] [--bound 1e-5]

A tiny random Llama, a byte-level tokenizer, and a chat template with {% generation %} are saved as a Hugging Face
folder. Conversations of several turns, each as long as a window, are learnt in the same order by both, in fp32: AdamW
without weight decay, clipping at 1. TRL runs with assistant_only_loss. Prints the greatest relative difference of a
loss and the loss that TRL has where all tokens are learnt, which is another one; ends with 1 above --bound. Needs
torch, transformers, tokenizers, datasets and trl.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from trl import SFTConfig, SFTTrainer

LENGTH, BATCH, RATE = 96, 4, 5e-3
TEMPLATE = ("{% for message in messages %}{% if message['role'] == 'assistant' %}<|answer|>{% generation %}"
            "{{ message['content'] }}<|end|>{% endgeneration %}{% else %}<|{{ message['role'] }}|>{{ message['content'] }}"
            "<|end|>{% endif %}{% endfor %}")
SPECIAL = ["<|end|>", "<|user|>", "<|system|>", "<|answer|>"]
WORDS = "one two three four five six seven eight nine ten".split()


def save_model(folder):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    plain.pre_tokenizer, plain.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    plain.add_special_tokens(SPECIAL)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|end|>", pad_token="<|end|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=LENGTH + 32,
                                      initializer_range=0.1, tie_word_embeddings=False, eos_token_id=256, pad_token_id=256,
                                      bos_token_id=None)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return tokenizer


def conversations(tokenizer, count):
    """Each has exactly LENGTH tokens: the last answer is cut or filled up."""
    generator, made = random.Random(1), []
    while len(made) < count:
        messages = [{"role": "system", "content": "Count."}] if generator.random() < 0.5 else []
        for turn in range(generator.randrange(1, 3)):
            start = generator.randrange(len(WORDS) - 2)
            messages += [{"role": "user", "content": f"{WORDS[start]}?"},
                         {"role": "assistant", "content": f"{WORDS[start + 1]}, {WORDS[start + 2]}"}]
        tokens = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]
        if len(tokens) <= LENGTH:
            messages[-1]["content"] += "!" * (LENGTH - len(tokens))
            made.append({"messages": messages})
    return made


class Sequential(SFTTrainer):
    """Takes the samples in their order, and keeps the loss of each step."""

    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, *arguments, **more):
        result = super().compute_loss(*arguments, **more)
        loss = result[0] if isinstance(result, tuple) else result
        self.losses = getattr(self, "losses", []) + [loss.item()]
        return result


def trl_losses(folder, samples, steps, answers_only):
    model = transformers.LlamaForCausalLM.from_pretrained(os.path.join(folder, "model"), dtype=torch.float32)
    settings = SFTConfig(output_dir=os.path.join(folder, "trl"), max_steps=steps, per_device_train_batch_size=BATCH,
                         learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0,
                         optim="adamw_torch", assistant_only_loss=answers_only, max_length=LENGTH, packing=False,
                         use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], save_strategy="no",
                         logging_strategy="no", disable_tqdm=True, dataloader_num_workers=0)
    trainer = Sequential(model, args=settings, train_dataset=Dataset.from_list(samples),
                         processing_class=transformers.AutoTokenizer.from_pretrained(os.path.join(folder, "model")))
    trainer.train()
    return trainer.losses


def our_losses(folder, build, steps):
    config = {"train_batch_size": BATCH, "gradient_clipping": 1.0,
              "optimizer": {"type": "AdamW", "params": {"lr": RATE, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0}},
              "cspeed": {"model": "model", "steps": steps, "threads": 1, "products": "fixed", "metrics": "metrics.jsonl",
                         "output": "run", "save_interval": 0, "eval_interval": 0,
                         "data": {"train": "chats.jsonl", "valid": [], "template": "auto", "packing": "documents",
                                  "seq_len": LENGTH, "shuffle": False}}}
    with open(os.path.join(folder, "ds_config.json"), "w") as file:
        json.dump(config, file)
    done = subprocess.run([os.path.join(os.path.abspath(build), "train"), "--config", "ds_config.json"], cwd=folder,
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"train ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    with open(os.path.join(folder, "run/metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return [line["loss"] for line in lines if line.get("loss") is not None and "lr" in line]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/bin")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--bound", type=float, default=1e-5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = save_model(os.path.join(folder, "model"))
        samples = conversations(tokenizer, chosen.steps * BATCH + 1)  # one more: its first token ends the last window
        with open(os.path.join(folder, "chats.jsonl"), "w") as file:
            file.writelines(json.dumps(sample) + "\n" for sample in samples)
        ours = our_losses(folder, chosen.build, chosen.steps)
        theirs = trl_losses(folder, samples[:-1], chosen.steps, True)
        everything = trl_losses(folder, samples[:-1], 1, False)
    apart = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    import trl
    print(f"{len(ours)} losses, {ours[0]:.6f} to {ours[-1]:.6f}: cspeed from TRL {trl.__version__} at most {apart:.1e}, "
          f"relative; on all tokens the first is {everything[0]:.6f}")
    return 0 if len(ours) == len(theirs) == chosen.steps and apart <= chosen.bound else 1


if __name__ == "__main__":
    sys.exit(main())
