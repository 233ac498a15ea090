"""generate_same.py - greedy text of `generate` against transformers' generate, for a small random GPT-2 and Llama.

    python tests/peers/generate_same.py BUILD/bin/generate TOKENIZER_FOLDER

TOKENIZER_FOLDER has a byte-level BPE tokenizer.json; the models have its vocabulary."""
import subprocess
import sys
import tempfile

import torch
import transformers

PROMPTS = ["The quick brown fox", "x = [1, 2, 3]", "Über den Wolken"]
TOKENS = 24


def models(vocabulary):
    small = dict(vocab_size=vocabulary, initializer_range=0.1, bos_token_id=None, eos_token_id=None)
    yield transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_head=4, n_embd=64, n_positions=128, **small))
    yield transformers.LlamaForCausalLM(
        transformers.LlamaConfig(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=64,
                                 intermediate_size=128, max_position_embeddings=128, **small))


def main():
    program, folder = sys.argv[1:3]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(1)
    wrong = 0
    for model in models(len(tokenizer)):
        with tempfile.TemporaryDirectory() as place:
            model.eval().save_pretrained(place)
            for prompt in PROMPTS:
                ids = tokenizer(prompt, return_tensors="pt").input_ids
                out = model.generate(ids, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0)
                wanted = tokenizer.decode(out[0, ids.shape[1]:], skip_special_tokens=True).encode()
                got = subprocess.run([program, place, "--tokenizer", folder, "--prompt", prompt, "--temperature", "0",
                                      "--max_tokens", str(TOKENS)], check=True, capture_output=True).stdout
                same = got.decode(errors="replace").encode() == wanted
                wrong += not same
                print(type(model).__name__, repr(prompt), "same" if same else f"differs: {got!r}, not {wanted!r}")
    sys.exit(wrong > 0)


main()
