"""config_keys.py [--write] BUILD/bin/train - every key that transformers' configuration classes know is judged by a table.

    python tests/peers/config_keys.py build/bin/train            exits with 1 if a key of the installed transformers is in none
    python tests/peers/config_keys.py --write build/bin/train    writes engine/models/neutral_keys.h; rows of keys that this
                                                                 version of transformers does not have stay

The keys are those of PretrainedConfig and of the classes of FAMILIES: what they save, what their
constructors read and drop, and what GenerationConfig holds, since older versions save that in config.json too. A key that has no
row in the table of its family (train --config_help) gets one here: a key of ALWAYS never changes what the model computes; one of
NEUTRAL does not at the value given, and is refused at any other. A key that is in neither is named: it has to be judged. Needs
transformers, of any version: the table was made with 4.36, 4.57 and 5.23.
"""
import inspect
import json
import os
import re
import subprocess
import sys

import transformers

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/models/neutral_keys.h")
FAMILIES = {"gpt2": "GPT2Config", "llama": "LlamaConfig", "mistral": "MistralConfig", "qwen2": "Qwen2Config", "qwen3": "Qwen3Config",
            "gpt_neox": "GPTNeoXConfig", "gemma2": "Gemma2Config", "gemma3_text": "Gemma3TextConfig", "phi3": "Phi3Config",
            "olmo2": "Olmo2Config", "granite": "GraniteConfig", "starcoder2": "Starcoder2Config", "falcon": "FalconConfig",
            "mixtral": "MixtralConfig", "qwen2_moe": "Qwen2MoeConfig", "qwen3_moe": "Qwen3MoeConfig", "gemma": "GemmaConfig", "smollm3": "SmolLM3Config", "olmo3": "Olmo3Config",
            "seed_oss": "SeedOssConfig", "internlm3": "InternLM3Config", "arcee": "ArceeConfig", "ernie4_5": "Ernie4_5Config",
            "cohere": "CohereConfig", "cohere2": "Cohere2Config", "glm": "GlmConfig", "glm4": "Glm4Config", "ministral": "MinistralConfig",
            "ministral3": "Ministral3Config", "hunyuan_v1_dense": "HunYuanDenseV1Config", "phi": "PhiConfig", "olmoe": "OlmoeConfig",
            "gpt_oss": "GptOssConfig"}

GENERATION = "a setting of transformers' generate(); training does not use it, and `cspeed generate` has its own options"
LABELS = "it configures a classification head, and the models here have a language-model head"
RETURNED = "it selects what a Python model returns; training computes only the loss"
PRECISION = "the sections fp16 and bf16 of the configuration select the precision"
SAME = "it selects an implementation in Python; the computed values are the same"
NOTE = "information for readers; cspeed does not use it"
TOKENS = "the tokenizer's own files say this"
SHARED = ["GENERATION", "LABELS", "RETURNED", "PRECISION", "SAME", "NOTE", "TOKENS"]  # macros of the table
ALWAYS = {
    "architectures": "the family follows from model_type", "transformers_version": NOTE, "name_or_path": NOTE,
    "transformers.js_config": "only transformers.js, in JavaScript, uses it",
    "bos_token_id": TOKENS, "eos_token_id": TOKENS, "unk_token_id": TOKENS,
    "pad_token_id": "batches here have no padding, and the embedding of this model_type treats no token as padding",
    "finetuning_task": LABELS, "id2label": LABELS, "label2id": LABELS, "num_labels": LABELS, "problem_type": LABELS,
    "classifier_dropout": LABELS,
    "return_dict": RETURNED, "output_attentions": RETURNED, "output_hidden_states": RETURNED, "torchscript": RETURNED,
    "dtype": PRECISION, "torch_dtype": PRECISION, "use_bfloat16": PRECISION, "tf_legacy_loss": "only TensorFlow uses it",
    "xla_device": "only TPUs use it", "chunk_size_feed_forward": SAME, "gradient_checkpointing": SAME, "attn_implementation": SAME,
    "experts_implementation": SAME, "pretraining_tp": SAME,
    "is_decoder": "all models here are decoders", "tie_encoder_decoder": "all models here are decoders without an encoder", "prefix": GENERATION,
    "task_specific_params": GENERATION, "tokenizer_class": TOKENS, "sep_token_id": TOKENS,
    "max_window_layers": "this model_type selects its layers with a sliding window in another way, or has none",
}
NEUTRAL = {
    "add_cross_attention": (False, "cross-attention needs an encoder, and all models here are decoders only"),
    "attention_bias": (False, "this model_type has no bias keys for its attention projections"),
    "cross_attention_hidden_size": (None, "cross-attention needs an encoder, and all models here are decoders only"),
    "is_causal": (True, "attention is always causal"),
    "is_encoder_decoder": (False, "all models here are decoders without an encoder"),
    "mlp_bias": (False, "the feed-forward of this model_type has no biases"),
    "per_layer_config": (None, "all layers have the same sizes"),
    "pruned_heads": ({}, "pruned attention heads are not implemented"),
    "quantization_config": (None, "weights must be fp32, bf16 or fp16: quantized weights cannot be read"),
    "sliding_window": (None, "in this model_type each token attends to all earlier tokens"),
    "use_mrope": (False, "positions are one-dimensional; multimodal rotary positions are not implemented"),
    "use_sliding_window": (False, "no layer of this model_type has a sliding window"),
}
# Read by transformers where a file has them, though no class above saves them.
READ = ["transformers.js_config", "classifier_dropout", "is_causal", "quantization_config", "unk_token_id",
        "use_mrope"]
# What the constructors turn into rope_parameters, and aliases of a family's own keys.
SPELLINGS = {"rope_scaling", "rope_theta", "rope_parameters", "layer_types", "partial_rotary_factor", "auto_map"}


def constructed(config_class):
    """What a constructor takes out of the keys that the class does not name."""
    names = set()
    for method in ("__init__", "__post_init__"):
        if method in vars(config_class):
            try:
                source = inspect.getsource(vars(config_class)[method])
            except OSError:  # a dataclass's, which is made of its fields
                continue
            names |= set(re.findall(r'kwargs\.(?:pop|get)\(\s*"(\w+)"', source))
    return names


def keys_of_transformers():
    """{key: the families whose configuration class knows it}"""
    base = set(transformers.PretrainedConfig().to_dict()) | constructed(transformers.PretrainedConfig)
    base |= set(transformers.GenerationConfig().to_dict()) | set(READ)
    keys = {key: set(FAMILIES) for key in base}
    for family, name in FAMILIES.items():
        if hasattr(transformers, name):
            for key in set(getattr(transformers, name)().to_dict()) - base:
                keys.setdefault(key, set()).add(family)
    return {key: known for key, known in keys.items() if not key.startswith("_") and key != "model_type"}


def keys_of_families(train):
    """{family: the keys of its own table}"""
    text = subprocess.run([train, "--config_help"], check=True, capture_output=True, text=True).stdout
    sections = re.findall(r'\n## cspeed\.model, model_type "(\w+)".*\n\n((?:- `.*\n?)*)', text)
    assert {family for family, rows in sections} == set(FAMILIES)
    return {family: {row.split("`")[1] for row in rows.splitlines() if row.strip()} for family, rows in sections}


def is_missing(key, known, own):
    return key not in SPELLINGS and any(key not in own[family] for family in known)


def row_of(key):
    if key in NEUTRAL:
        value, sentence = NEUTRAL[key]
        text = json.dumps(value)
        return f'CE_REFUSED("{key}", "{text}", NULL, "{sentence}"),'
    sentence = ALWAYS.get(key) or (GENERATION if key in transformers.GenerationConfig().to_dict() else None)
    names = [name for name in SHARED if globals()[name] == sentence]
    return f'CE_INERT("{key}", {names[0] if names else json.dumps(sentence)}),' if sentence else None


def read_table():
    """{key: its row}, in one line each, as row_of writes it; clang-format breaks them."""
    if not os.path.exists(TABLE):
        return {}
    with open(TABLE, encoding="utf-8") as file:
        rows = re.findall(r'CE_(?:INERT|REFUSED)\(.*?\),(?=\s)', file.read(), re.S)
    return {row.split('"')[1]: re.sub(r"\s+", " ", row) for row in rows}


def main():
    train = sys.argv[-1]
    keys, own, table = keys_of_transformers(), keys_of_families(train), read_table()
    rows = {key: row_of(key) for key, known in sorted(keys.items()) if is_missing(key, known, own)}
    unknown = [key for key, row in rows.items() if row is None]
    print(f"transformers {transformers.__version__}: {len(keys)} keys, {len(rows)} of them in no family's own table")
    for key in unknown:
        print(f"{key}: in no table; does it change what a model computes?")
    if unknown:
        return 1
    if "--write" in sys.argv:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write("/* neutral_keys.h - made by tests/peers/config_keys.py: keys of config.json that change nothing. */\n")
            file.write("".join(f'#define {name} "{globals()[name]}"\n' for name in SHARED))
            file.write("\n".join(row for key, row in sorted({**table, **rows}.items())) + "\n")
        return 0
    wrong = [key for key, row in rows.items() if table.get(key) != row]
    for key in wrong:
        print(f"{key}: engine/models/neutral_keys.h has another row for it, or none")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
