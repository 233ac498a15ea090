"""tokens_same.py - new tokens by `cspeed add-tokens` and by transformers: the ids of texts, the table and the head.

usage: python tests/peers/tokens_same.py [--bin build/bin] [--bound 1e-6]

For each kind of model this script makes a small random model with a tokenizer (BPE of bytes), adds tokens by cspeed, and
by add_tokens, add_special_tokens and resize_token_embeddings (mean_resizing, as is the default) of transformers.
Compared: the ids of texts by transformers from both folders and by `cspeed pack`; config.json; the rows of the table and
the head that were there, bit by bit; the new rows with the mean of the old ones (relative to the largest magnitude, at most
--bound) and with those of transformers, which adds noise of 3e-5 of the rows' standard deviation (at most 1e-3); the
logits. Needs torch, transformers and tokenizers.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import tokenizers
import torch
import transformers

HEADER, END = 32, 285  # 16-bit words of the header of a token shard; the id of <|end|>
SMALL = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64}
KINDS = {
    "llama": ("llama", SMALL, 282, []),
    "llama-tied": ("llama", {**SMALL, "tie_word_embeddings": True}, 282, ["--multiple", "32"]),
    "room": ("llama", SMALL, 288, ["--multiple", "8"]),
    "gpt2": ("gpt2", {"n_positions": 64, "n_embd": 24, "n_layer": 1, "n_head": 3}, 282, []),
    "phi": ("phi", SMALL, 282, []),
}
TEXTS = ["plain words", "<tool>call</tool> after", "a <|pad|> b<|user|>", "<|user|> x", " wordthe"]
TOKENS, SPECIALS, NAMED = ["<tool>", "</tool>", "the"], ["<|user|>", "<|end|>"], {"eos_token": "<|end|>",
                                                                                 "pad_token": "<|pad|>"}


def make_tokenizer(folder):
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "</s>"], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(["the words of a plain text and the other words of the text"] * 50, trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)
    return fast


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def packed(chosen, folder, text):
    with open(f"{folder}/text.txt", "w") as file:
        file.write(text)
    call(f"{chosen.bin}/pack", f"{folder}/text.txt", "--output", f"{folder}/{len(os.listdir(folder))}", "--tokenizer",
         f"{folder}/ours", "--valid", "0")
    tokens = np.fromfile(f"{folder}/{len(os.listdir(folder)) - 1}/train-00000.bin", "<u2")[HEADER:].tolist()
    return tokens[:tokens.index(END)]


def tables(model):
    yield "table", model.get_input_embeddings().weight
    yield "head", model.get_output_embeddings().weight
    if model.get_output_embeddings().bias is not None:
        yield "bias", model.get_output_embeddings().bias[:, None]


def compare(chosen, kind, folder):
    family, sizes, vocabulary, flags = KINDS[kind]
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(family, vocab_size=vocabulary, bos_token_id=0, eos_token_id=1, **sizes)
    base = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for value in base.parameters():
            value.add_(0.2 * torch.randn(value.shape))
    base.save_pretrained(f"{folder}/base")
    tokenizer = make_tokenizer(f"{folder}/base")
    given = [f"--token={text}" for text in TOKENS] + [f"--special_token={text}" for text in SPECIALS]
    given += [f"--{key}={text}" for key, text in NAMED.items()] + flags
    call(f"{chosen.bin}/cspeed", "add-tokens", f"{folder}/base", f"{folder}/ours", *given)
    tokenizer.add_tokens(TOKENS)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIALS})
    tokenizer.add_special_tokens(NAMED)
    multiple = int(flags[1]) if flags else 1
    rows = max(vocabulary, -(-len(tokenizer) // multiple) * multiple)
    model = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/base")
    model.resize_token_embeddings(rows)
    ours = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/ours")
    reader = transformers.AutoTokenizer.from_pretrained(f"{folder}/ours")
    wrong = []
    if ours.config.vocab_size != rows or reader.eos_token != "<|end|>" or reader.pad_token != "<|pad|>":
        wrong.append("config")
    if ours.config.eos_token_id != reader.convert_tokens_to_ids("<|end|>"):
        wrong.append("eos_token_id")
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        if not ids == reader(text)["input_ids"] == packed(chosen, folder, text):
            wrong.append(f"ids of {text!r}: {ids}, {reader(text)['input_ids']}, {packed(chosen, folder, text)}")
        if tokenizer.decode(ids, skip_special_tokens=True) != reader.decode(ids, skip_special_tokens=True):
            wrong.append(f"decoding of {text!r}")
    worst, noise = 0, 0
    for (name, mine), (_, theirs), (_, old) in zip(tables(ours), tables(model), tables(base)):
        if not torch.equal(mine[:vocabulary], old):
            wrong.append(f"old rows of the {name}")
        size = old.abs().max()
        if rows > vocabulary:
            worst = max(worst, ((mine[vocabulary:] - old.double().mean(0)).abs().max() / size).item())
            noise = max(noise, ((mine[vocabulary:] - theirs[vocabulary:]).abs().max() / size).item())
    print(f"{kind}: {rows} rows, from the mean {worst:.1e}, from transformers {noise:.1e} {'; '.join(wrong)}", flush=True)
    return not wrong and worst <= chosen.bound and noise <= 1e-3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--bound", type=float, default=1e-6)
    chosen = parser.parse_args()
    same = True
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/base")
            same &= compare(chosen, kind, folder)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
