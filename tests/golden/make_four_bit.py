"""make_four_bit.py - writes four_bit.golden and the folder four_bit: 4-bit weights of bitsandbytes, and QLoRA in PEFT.

usage: python tests/golden/make_four_bit.py [OUTPUT]

Needs torch, transformers, peft and bitsandbytes, which computes on the CPU here. The format of the file is in
make_gpt2.py. OUTPUT is the folder tests/golden without an argument.

For each type (nf4, fp4) and each element i of a matrix (160, 128) whose value is numbers(i): TYPE.codes, the bytes of the
codes, four in an i32; with double quantisation TYPE.absmax (bytes too), TYPE.nested and TYPE.offset, and TYPE.values, the
dequantised elements of the first eight rows. `scales` is the table of the codes of absmax.

The folder has a tiny random Llama in fp32 (base), the same model in NF4 with double quantisation as transformers saves it
(packed), and an adapter of PEFT whose B is not zero (adapter). `losses` are those of ten steps of QLoRA in fp32 from the
4-bit model and this adapter, on the token ids `tokens`, as tests/engine/test_four_bit.c trains.
"""
import json
import os
import shutil
import sys

import bitsandbytes.functional as bnb
import numpy as np
import peft
import torch
import transformers

from make_gpt2 import write_golden

ROWS, COLUMNS = 160, 128
STEPS, BATCH, LENGTH, VOCAB = 10, 4, 16, 37
LLAMA = {"vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32}


def numbers():
    i = np.arange(ROWS * COLUMNS, dtype=np.int64)
    each = (i * 40503 % 65536 - 32768).astype(np.float32) / 65536
    block = (1 + i // 64 * 37 % 101).astype(np.float32) / 64
    return torch.from_numpy(each * block).reshape(ROWS, COLUMNS)


def packed(tensor):
    data = tensor.reshape(-1).numpy().view(np.uint8).tobytes()
    return np.frombuffer(data + bytes(-len(data) % 4), "<i4")


def codes(kind):
    data, state = bnb.quantize_4bit(numbers(), blocksize=64, compress_statistics=True, quant_type=kind)
    values = bnb.dequantize_4bit(data, state)
    return {f"{kind}.codes": packed(data), f"{kind}.absmax": packed(state.absmax),
            f"{kind}.nested": state.state2.absmax.numpy().astype("<f4"),
            f"{kind}.offset": np.array([state.offset.item()], "<f4"),
            f"{kind}.values": values[:8].contiguous().numpy().astype("<f4"),
            "scales": state.state2.code.numpy().astype("<f4")}


def shake(parameters, scale, generator):
    with torch.no_grad():
        for value in parameters:
            value.add_(scale * torch.randn(value.shape, generator=generator).to(value.dtype))


def make(folder):
    generator = torch.Generator().manual_seed(7)
    base = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**LLAMA))
    shake(base.parameters(), 0.1, generator)
    base.save_pretrained(f"{folder}/base")
    how = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                          bnb_4bit_compute_dtype=torch.float32)
    four = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/base", quantization_config=how,
                                                             dtype=torch.float32, device_map="cpu")
    four.save_pretrained(f"{folder}/packed")
    model = peft.get_peft_model(four, peft.LoraConfig(task_type="CAUSAL_LM", r=3, lora_alpha=8,
                                                      target_modules=["q_proj", "k_proj", "v_proj", "down_proj"]))
    shake([value for value in model.parameters() if value.requires_grad], 0.05, generator)
    model.save_pretrained(f"{folder}/adapter")
    path = f"{folder}/adapter/adapter_config.json"
    with open(path) as file:
        config = json.load(file)
    with open(path, "w") as file:
        json.dump({**config, "base_model_name_or_path": "packed"}, file, indent=2)
    for each in ("base", "packed", "adapter"):
        for name in ("generation_config.json", "README.md"):
            if os.path.exists(f"{folder}/{each}/{name}"):
                os.remove(f"{folder}/{each}/{name}")
    return model.train()  # in evaluation bitsandbytes multiplies in bf16 on some CPUs


def losses(model, tokens):
    ids = torch.from_numpy(tokens.astype(np.int64))
    inputs, targets = (part.reshape(STEPS, BATCH, LENGTH) for part in (ids[:-1], ids[1:]))
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
    found = []
    for step in range(STEPS):
        logits = model(input_ids=inputs[step]).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), targets[step].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def main():
    torch.set_num_threads(1)
    output = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    entries = {**codes("nf4"), **codes("fp4")}
    folder = os.path.join(output, "four_bit")
    shutil.rmtree(folder, ignore_errors=True)
    tokens = np.random.default_rng(5).integers(VOCAB, size=STEPS * BATCH * LENGTH + 1).astype("<i4")
    entries["tokens"] = tokens
    entries["losses"] = np.array(losses(make(folder), tokens), "<f4")
    print("losses", entries["losses"])
    write_golden(os.path.join(output, "four_bit.golden"), entries)


if __name__ == "__main__":
    main()
