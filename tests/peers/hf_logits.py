"""hf_logits.py - the two directions between Hugging Face folders and cspeed, judged by transformers.

usage: hf_logits.py kinds                    the names of all KINDs
       hf_logits.py make KIND OUT            a small random model of KIND saved to the folder OUT
       hf_logits.py shards KIND OUT          the same in several shards of bf16
       hf_logits.py fused KIND OUT              the same as `make`, with all experts of a layer in one tensor
       hf_logits.py logits FOLDER OUT        what AutoModelForCausalLM computes in fp32 for tokens 0, 7, 14, ... (2 x 8,
                                             modulo the vocabulary), as raw fp32, to the file OUT
       hf_logits.py pickle KIND OUT          saved as pytorch_model.bin, as older versions did
       hf_logits.py same FOLDER OTHER        exits with 1 if the two folders' tensors differ in names, types, shapes or bytes
"""
import glob
import sys

import safetensors.torch
import torch
import transformers

SMALL = {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
OTHER = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
VISION = {"model_type": "siglip_vision_model", "hidden_size": 12, "intermediate_size": 16, "num_hidden_layers": 1,
          "num_attention_heads": 2, "image_size": 16, "patch_size": 8}
FALCON = {key: value for key, value in OTHER.items() if key != "intermediate_size"}
KINDS = {
    "gpt2": ("gpt2", {"vocab_size": 61, "n_positions": 64, "n_embd": 24, "n_layer": 2, "n_head": 3,
                      "bos_token_id": 0, "eos_token_id": 0}),
    "llama": ("llama", SMALL),
    "llama3": ("llama", {**SMALL, "head_dim": 8, "tie_word_embeddings": True, "attention_bias": True,
                         "rope_scaling": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
                                          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}),
    "mistral": ("mistral", {**SMALL, "sliding_window": 5}),
    "qwen2": ("qwen2", {**SMALL, "tie_word_embeddings": True}),
    "qwen3": ("qwen3", {**SMALL, "head_dim": 10}),
    "pythia": ("gpt_neox", {**OTHER, "num_attention_heads": 3}),
    "neox": ("gpt_neox", {**OTHER, "use_parallel_residual": False, "rotary_pct": 1.0, "tie_word_embeddings": True}),
    "gemma2": ("gemma2", {**SMALL, "head_dim": 8, "num_hidden_layers": 3, "query_pre_attn_scalar": 9, "sliding_window": 5,
                          "attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0}),
    "gemma3": ("gemma3_text", {**SMALL, "head_dim": 8, "num_hidden_layers": 3, "query_pre_attn_scalar": 9, "sliding_window": 5,
                               "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "phi3": ("phi3", {**SMALL, "pad_token_id": 0, "sliding_window": 6}),
    "phi4": ("phi3", {**SMALL, "hidden_size": 32, "pad_token_id": 0, "tie_word_embeddings": True,
                      "original_max_position_embeddings": 32,
                      "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1, 1.2], "long_factor": [1.0, 2.0, 5.0]},
                      "partial_rotary_factor": 0.75}),
    "phi4long": ("phi3", {**SMALL, "hidden_size": 32, "pad_token_id": 0, "original_max_position_embeddings": 4,
                          "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1, 1.2], "long_factor": [1.0, 2.0, 5.0]},
                          "partial_rotary_factor": 0.75}),
    "olmo2": ("olmo2", {**SMALL, "pad_token_id": 0}),
    "granite": ("granite", {**SMALL, "embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.3,
                            "logits_scaling": 2.5}),
    "starcoder2": ("starcoder2", {**OTHER, "num_key_value_heads": 2, "sliding_window": 5}),
    "mixtral": ("mixtral", {**SMALL, "num_local_experts": 4, "sliding_window": 5}),
    "qwen2moe": ("qwen2_moe", {**SMALL, "num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 20,
                               "shared_expert_intermediate_size": 28, "num_hidden_layers": 3, "decoder_sparse_step": 2,
                               "output_router_logits": True}),
    "qwen3moe": ("qwen3_moe", {**SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                               "mlp_only_layers": [1], "head_dim": 8, "norm_topk_prob": True}),
    "falcon": ("falcon", {**FALCON, "hidden_size": 32}),
    "falcon40b": ("falcon", {**FALCON, "hidden_size": 32, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "falconrw": ("falcon", {**FALCON, "hidden_size": 32, "parallel_attn": False, "multi_query": False, "bias": True}),
    "gpt2layers": ("gpt2", {"vocab_size": 61, "n_positions": 64, "n_embd": 24, "n_layer": 2, "n_head": 3, "bos_token_id": 0,
                            "eos_token_id": 0, "scale_attn_by_inverse_layer_idx": True, "activation_function": "relu"}),
    "gemma": ("gemma", {**SMALL, "head_dim": 8}),
    "smollm3": ("smollm3", {**SMALL, "no_rope_layer_interval": 2, "pad_token_id": 0}),
    "olmo3": ("olmo3", {**SMALL, "num_hidden_layers": 4, "sliding_window": 5, "pad_token_id": 0}),
    "seedoss": ("seed_oss", {**SMALL, "head_dim": 8, "attention_out_bias": True, "attention_dropout": 0.0, "residual_dropout": 0.0}),
    "arcee": ("arcee", SMALL),
    "internlm3": ("internlm3", {**SMALL, "head_dim": 8}),
    "ernie": ("ernie4_5", {**SMALL, "head_dim": 8}),
    "cohere": ("cohere", {**SMALL, "logit_scale": 0.5}),
    "cohere2": ("cohere2", {**SMALL, "logit_scale": 0.5, "sliding_window": 5, "sliding_window_pattern": 2}),
    "glm": ("glm", {**SMALL, "head_dim": 8, "pad_token_id": 0}),
    "glm4": ("glm4", {**SMALL, "head_dim": 8, "pad_token_id": 0}),
    "ministral": ("ministral", {**SMALL, "head_dim": 8, "sliding_window": 5}),
    "ministral3": ("ministral3", {**SMALL, "head_dim": 8}),
    "hunyuan": ("hunyuan_v1_dense", {**SMALL, "head_dim": 8, "pad_token_id": 0}),
    "phi2": ("phi", {**OTHER, "hidden_size": 32}),
    "olmoe": ("olmoe", {**SMALL, "num_experts": 4, "num_experts_per_tok": 2, "pad_token_id": 0}),
    "gptoss": ("gpt_oss", {**SMALL, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5,
                           "swiglu_limit": 1.5, "pad_token_id": 0}),
    "gemma3images": ("gemma3", {"text_config": {"model_type": "gemma3_text", **SMALL, "head_dim": 8, "query_pre_attn_scalar": 9,
                                                "sliding_window": 5}, "vision_config": VISION, "mm_tokens_per_image": 1}),
    "mistral3images": ("mistral3", {"text_config": {"model_type": "mistral", **SMALL, "head_dim": 8},
                                    "vision_config": {**VISION, "model_type": "pixtral", "head_dim": 6},
                                    "tie_word_embeddings": False}),
    "smollm": ("llama", {**SMALL, "num_attention_heads": 3, "num_key_value_heads": 1, "tie_word_embeddings": True,
                         "rms_norm_eps": 1e-5}),
}


def class_of(config):
    """Models with images have another class; only their text model is compared."""
    images = hasattr(config, "vision_config")
    return transformers.AutoModelForImageTextToText if images else transformers.AutoModelForCausalLM


def random_model(kind):
    family, sizes = KINDS[kind]
    config = transformers.AutoConfig.for_model(family, **sizes)
    model = class_of(config).from_config(config)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            one = "norm" in name or (("ln_" in name) and name.endswith("weight"))
            value.copy_(0.2 * noise + (1 if one else 0))
    return model


def tensors(folder):
    found = {}
    for path in glob.glob(f"{folder}/*.safetensors"):
        found |= safetensors.torch.load_file(path)
    return found


def same(folder, other):
    one, two = tensors(folder), tensors(other)
    differ = sorted(set(one) ^ set(two))
    for name in set(one) & set(two):
        a, b = one[name], two[name]
        if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a.view(torch.uint8), b.view(torch.uint8)):
            differ.append(name)
    print(f"{len(one)} tensors, " + (f"these differ: {differ}" if differ else "all the same"))
    return 1 if differ else 0


def logits(folder, out):
    config = transformers.AutoConfig.from_pretrained(folder)
    model = class_of(config).from_pretrained(folder, dtype=torch.float32).eval()
    tokens = (7 * torch.arange(16) % config.get_text_config().vocab_size).view(2, 8)
    with torch.no_grad():
        model(input_ids=tokens).logits.float().numpy().astype("<f4").tofile(out)


def main():
    transformers.logging.set_verbosity_error()
    if sys.argv[1] == "kinds":
        print(*KINDS)
        return
    what, first, out = sys.argv[1:4]
    if what == "same":
        sys.exit(same(first, out))
    if what == "make":
        random_model(first).save_pretrained(out)
    elif what == "fused":
        random_model(first).save_pretrained(out, save_original_format=False)
    elif what == "shards":
        random_model(first).to(torch.bfloat16).save_pretrained(out, max_shard_size="8KB")
    elif what == "pickle":
        model = random_model(first)
        model.config.save_pretrained(out)
        torch.save(model.state_dict(), f"{out}/pytorch_model.bin")
    elif what == "logits":
        logits(first, out)


if __name__ == "__main__":
    main()
