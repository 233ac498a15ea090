"""generate_same.py - greedy text of `generate` against transformers' generate, for small random models of all families.

    python tests/peers/generate_same.py BUILD/bin/generate TOKENIZER_FOLDER

TOKENIZER_FOLDER has a byte-level BPE tokenizer.json; the models have its vocabulary."""
import subprocess
import sys
import tempfile

import torch
import transformers

from hf_logits import KINDS

PROMPTS = ["The quick brown fox", "x = [1, 2, 3]", "Über den Wolken"]
TOKENS = 24


def models(vocabulary):
    """Small random models of all kinds of hf_logits.py, with this vocabulary and 128 positions. Those with longrope have
    128 original ones too: generate turns no text by long_factor."""
    for kind, (family, sizes) in KINDS.items():
        positions = {"n_positions": 128} if family == "gpt2" else {"max_position_embeddings": 128}
        if "original_max_position_embeddings" in sizes:
            positions["original_max_position_embeddings"] = 128
        config = transformers.AutoConfig.for_model(family, **{**sizes, **positions, "vocab_size": vocabulary,
                                                              "initializer_range": 0.1, "bos_token_id": None,
                                                              "eos_token_id": None})
        yield kind, transformers.AutoModelForCausalLM.from_config(config)


def main():
    program, folder = sys.argv[1:3]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(1)
    wrong = 0
    for kind, model in models(len(tokenizer)):
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
                print(kind, repr(prompt), "same" if same else f"differs: {got!r}, not {wanted!r}")
    sys.exit(wrong > 0)


main()
