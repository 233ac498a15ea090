"""generate_same.py - greedy text of `generate` against transformers' generate, for small random models of all families; also
where generation_config.json of the model's folder names a token that ends the text.

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
        if "text_config" in sizes:  # the text model is another kind
            continue
        positions = {"n_positions": 128} if family == "gpt2" else {"max_position_embeddings": 128}
        if "original_max_position_embeddings" in sizes:
            positions["original_max_position_embeddings"] = 128
        config = transformers.AutoConfig.for_model(family, **{**sizes, **positions, "vocab_size": vocabulary,
                                                              "initializer_range": 0.1, "bos_token_id": None,
                                                              "eos_token_id": None})
        yield kind, transformers.AutoModelForCausalLM.from_config(config)


def text_of(program, place, folder, prompt):
    said = subprocess.run([program, place, "--tokenizer", folder, "--prompt", prompt, "--temperature", "0", "--max_tokens",
                           str(TOKENS)], check=True, capture_output=True).stdout
    return said.removesuffix(b"\n").decode(errors="replace").encode()


def compare(program, place, folder, tokenizer, model, prompt, ends):
    """Returns the new tokens by transformers. `ends` is the eos_token_id of generation_config.json."""
    transformers.GenerationConfig(eos_token_id=ends, pad_token_id=0).save_pretrained(place)
    how = transformers.GenerationConfig.from_pretrained(place)
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    out = model.generate(ids, generation_config=how, max_new_tokens=TOKENS, do_sample=False)[0, ids.shape[1]:].tolist()
    shown = out[:-1] if ends and out[-1] in ends else out
    wanted = tokenizer.decode(shown, skip_special_tokens=True).encode()
    got = text_of(program, place, folder, prompt)
    print(" ", repr(prompt), ends, "same" if got == wanted else f"differs: {got!r}, not {wanted!r}")
    return out, got == wanted


def main():
    program, folder = sys.argv[1:3]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(1)
    wrong = 0
    for kind, model in models(len(tokenizer)):
        with tempfile.TemporaryDirectory() as place:
            model.eval().save_pretrained(place)
            print(kind)
            for prompt in PROMPTS:
                out, same = compare(program, place, folder, tokenizer, model, prompt, None)
                wrong += not same
            ends = [len(tokenizer) - 1, out[TOKENS // 2]]
            short, same = compare(program, place, folder, tokenizer, model, prompt, ends)
            wrong += not same or len(short) > TOKENS // 2 + 1
    sys.exit(wrong > 0)


main()
