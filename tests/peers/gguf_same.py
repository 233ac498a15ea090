#!/usr/bin/env python3
"""gguf_same.py - GGUF files of tiny models, opened by llama.cpp: the same tokens as transformers' tokenizers and the same
logits as transformers' models. Each f32 file, imported, is the same model and tokenizer again. Tensors of each type that
is read are those that gguf's dequantize gives.

    python3 tests/peers/gguf_same.py build/bin          needs torch, transformers, tokenizers, gguf, llama-cpp-python

Each line has the family, the type, the number of texts with equal tokens, and the greatest difference of the logits
relative to their greatest magnitude. f32 files differ by rounding; other types by that of the weights."""
import os, subprocess, sys, tempfile

import gguf
import llama_cpp
import numpy as np
import torch
import transformers as tf
from safetensors.numpy import load_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

os.environ["HF_HUB_OFFLINE"] = "1"
BIN = sys.argv[1] if len(sys.argv) > 1 else "build/bin"
TEXTS = ["Hello world, it's 1234567 o'clock!", "  two  spaces\n\nand lines\n", "naïve café — 你好", "x = [1, 2, 3]; y=x[0]",
         "<|im_start|>user\nHi<|im_end|>", "", "I'LL DON'T we're"]
LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = open(__file__).read() + "Some words, the quick brown fox jumps over the lazy dog. " * 3


def tokenizer(kind, folder):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind in ("gpt2", "smollm"))
    specials = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    if kind == "pieces":
        t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)])
        specials = specials[:3] + ["<0x%02X>" % i for i in range(256)] + specials[3:]
        t.train_from_iterator([WORDS], trainers.BpeTrainer(vocab_size=600, special_tokens=specials))
        # the tokens of bytes are ordinary tokens of the vocabulary
        import json
        data = json.loads(t.to_str())
        data["added_tokens"] = [a for a in data["added_tokens"] if not a["content"].startswith("<0x")]
        t = Tokenizer.from_str(json.dumps(data))
        t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    else:
        t = Tokenizer(models.BPE())
        split = {"llama-bpe": LETTERS + "{1,3}" + OTHERS, "qwen2": LETTERS + OTHERS}.get(kind)
        parts = [pre_tokenizers.Split(Regex(split), "isolated")] if split else []
        parts += [pre_tokenizers.Digits(individual_digits=True)] if kind == "smollm" else []
        t.pre_tokenizer = pre_tokenizers.Sequence(parts + [byte_level]) if parts else byte_level
        t.decoder = decoders.ByteLevel()
        t.train_from_iterator([WORDS], trainers.BpeTrainer(vocab_size=600, special_tokens=specials,
                                                           initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    fast = tf.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                                      clean_up_tokenization_spaces=False)
    fast.chat_template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    fast.save_pretrained(folder)
    return fast


SIZES = dict(vocab_size=640, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=None)
GEMMA = dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=8, num_hidden_layers=6)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
CASES = [
    ("llama", tf.LlamaConfig(**SIZES), "smollm"),
    ("llama3", tf.LlamaConfig(**SIZES, rope_parameters=LLAMA3, tie_word_embeddings=True), "llama-bpe"),
    ("biases", tf.LlamaConfig(**SIZES, attention_bias=True, head_dim=32), "gpt2"),
    ("mistral", tf.MistralConfig(**SIZES, sliding_window=None), "pieces"),
    ("qwen2", tf.Qwen2Config(**SIZES), "qwen2"),
    ("qwen3", tf.Qwen3Config(**SIZES, head_dim=32), "qwen2"),
    ("gemma", tf.GemmaConfig(**SIZES, head_dim=32), "pieces"),
    ("gemma2", tf.Gemma2Config(**{**SIZES, **GEMMA}), "pieces"),
    ("gemma3", tf.Gemma3TextConfig(**{**SIZES, **GEMMA}), "pieces"),
    ("olmo2", tf.Olmo2Config(**SIZES), "gpt2"),
    ("granite", tf.GraniteConfig(**SIZES, embedding_multiplier=6.0, residual_multiplier=0.3, attention_multiplier=0.2,
                                 logits_scaling=4.0), "smollm"),
    ("smollm3", tf.SmolLM3Config(**{**SIZES, "hidden_size": 128}), "llama-bpe"),
]
# Relative to the greatest logit. llama.cpp takes GELU from a table of fp16, which Gemma's f32 files show.
BOUNDS = {"f32": 5e-6, "f16": 5e-3, "bf16": 3e-2, "q8_0": 1e-1, "q4_0": 8e-1}
GELU_BOUND = 2e-3


def same(name, config, kind, kind_of_file, folder, fast, model):
    path = f"{folder}.{kind_of_file}.gguf"
    subprocess.run([f"{BIN}/cspeed", "export", folder, path, "--gguf", kind_of_file], check=True, capture_output=True)
    llama = llama_cpp.Llama(path, n_ctx=64, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0,
                            flash_attn=False)
    equal = 0
    for text in TEXTS:
        want, got = fast(text)["input_ids"], llama.tokenize(text.encode(), add_bos=True, special=True)
        equal += want == got
        if want != got:
            print(f"  {name}: {text!r}: {got}, not {want}")
    ids = fast("the quick brown fox, 12 dogs and the lazy words")["input_ids"][:24]
    llama.reset()
    llama.eval(ids)
    got = np.array(llama.scores[:len(ids)])
    with torch.no_grad():
        want = model(torch.tensor([ids])).logits[0].float().numpy()
    worst = np.abs(got - want).max() / np.abs(want).max()
    print(f"{name:8} {kind_of_file:5} tokens {equal}/{len(TEXTS)}  logits {worst:.1e}", flush=True)
    return equal == len(TEXTS) and worst < max(BOUNDS[kind_of_file], GELU_BOUND if name.startswith("gemma") else 0)


def again(name, folder, fast, model):
    """Imports the f32 file: the same weights (Gemma's norms lose a bit when 1 is added), tokens and template."""
    subprocess.run([f"{BIN}/cspeed", "import", f"{folder}.f32.gguf", f"{folder}.again", "--dtype", "fp32"], check=True,
                   capture_output=True)
    read = tf.AutoTokenizer.from_pretrained(f"{folder}.again")
    equal = sum(read(text)["input_ids"] == fast(text)["input_ids"] for text in TEXTS)
    said = [{"role": "user", "content": "Hi"}]
    template = read.apply_chat_template(said, tokenize=False) == fast.apply_chat_template(said, tokenize=False)
    back = tf.AutoModelForCausalLM.from_pretrained(f"{folder}.again", attn_implementation="eager").float().eval()
    worst = max((a - b).abs().max().item() for a, b in zip(back.state_dict().values(), model.state_dict().values()))
    ids = torch.tensor([list(range(20, 60))])
    with torch.no_grad():
        want = model(ids).logits
        logits = ((back(ids).logits - want).abs().max() / want.abs().max()).item()
    print(f"{name:8} read  tokens {equal}/{len(TEXTS)}  template {template}  weights {worst:.1e}  logits {logits:.1e}", flush=True)
    return equal == len(TEXTS) and template and worst <= (2e-7 if name.startswith("gemma") else 0) and logits < 1e-5


# The places of fp16 factors in a block.
FACTORS = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2],
           "Q6_K": [208], "F16": [], "BF16": []}


def types(root):
    """A file whose matrices are random blocks of each type, imported, has the numbers of gguf's dequantize."""
    good, random = True, np.random.default_rng(1)
    for kind, factors in FACTORS.items():
        path, wanted = os.path.join(root, f"{kind}.gguf"), {}
        number = gguf.GGMLQuantizationType[kind]
        writer = gguf.GGUFWriter(path, "qwen3")
        for key, value in {"context_length": 64, "embedding_length": 256, "block_count": 1, "feed_forward_length": 256,
                           "attention.head_count": 4, "attention.head_count_kv": 2}.items():
            writer.add_uint32(f"qwen3.{key}", value)
        writer.add_layer_norm_rms_eps(1e-6)
        size, length = gguf.GGML_QUANT_SIZES[number]
        for name, rows in {"attn_q": 256, "attn_k": 128, "attn_v": 128, "attn_output": 256, "ffn_gate": 256, "ffn_up": 256,
                           "ffn_down": 256, "token_embd": 512}.items():
            data = random.integers(0, 256, (rows, 256 // size, length), dtype=np.uint8)
            for place in factors or [0]:
                data[:, :, place + 1] &= 0xBF  # finite
            data = data.reshape(rows, -1)
            name = name if name == "token_embd" else f"blk.0.{name}"
            writer.add_tensor(f"{name}.weight", data, raw_dtype=number)
            wanted[name] = gguf.dequantize(data, number)
        for name, width in {"blk.0.attn_norm": 256, "blk.0.ffn_norm": 256, "output_norm": 256, "blk.0.attn_q_norm": 64,
                            "blk.0.attn_k_norm": 64}.items():
            writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
        for part in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
            part()
        subprocess.run([f"{BIN}/cspeed", "import", path, path + ".out", "--dtype", "fp32"], check=True, capture_output=True)
        read = load_file(path + ".out/model.safetensors")
        names = {"token_embd": "model.embed_tokens", **{f"blk.0.{a}": f"model.layers.0.{b}" for a, b in {
            "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj"}.items()}}
        same = all(np.array_equal(read[names[n] + ".weight"].view(np.uint32), w.view(np.uint32)) for n, w in wanted.items())
        print(f"{kind:5} {'the same bits' if same else 'DIFFERS'}", flush=True)
        good = good and same
    return good


def main():
    torch.manual_seed(1)
    good = True
    with tempfile.TemporaryDirectory() as root:
        for name, config, kind in CASES:
            folder = os.path.join(root, name)
            fast = tokenizer(kind, folder)
            config.attn_implementation = "eager"
            model = tf.AutoModelForCausalLM.from_config(config).float().eval()
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    torch.nn.init.normal_(parameter, 1.0 if parameter.abs().max() > 0.5 else 0.0, 0.1)
                else:
                    torch.nn.init.normal_(parameter, 0, 0.1)
            model.save_pretrained(folder)
            for kind_of_file in BOUNDS if name in ("llama", "gemma3") else ["f32"]:
                good = same(name, config, kind, kind_of_file, folder, fast, model) and good
            good = again(name, folder, fast, model) and good
        good = types(root) and good
    sys.exit(0 if good else 1)


main()
