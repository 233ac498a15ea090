"""make_mxfp4.py - writes the folder mxfp4: a tiny gpt-oss whose experts have 4 bits (MXFP4), and what transformers
computes for it.

usage: python tests/golden/make_mxfp4.py [OUTPUT]

Needs torch and transformers. OUTPUT is the folder tests/golden/mxfp4 without an argument. logits.bin has the logits in
fp32 of the tokens of hf_logits.py, and experts.bin the matrices of layer 0 in bf16: gate_up_proj, then down_proj, as
transformers dequantises them.
"""
import os
import sys

import safetensors.torch
import torch
import transformers

SIZES = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "num_local_experts": 3,
         "num_experts_per_tok": 2, "sliding_window": 5, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "mxfp4")
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model("gpt_oss", **SIZES)
    model = transformers.AutoModelForCausalLM.from_config(config)
    tensors = {}
    for name, value in model.state_dict().items():
        if name.endswith(("gate_up_proj", "down_proj")) and ".experts." in name:
            experts, inputs, outputs = value.shape
            tensors[name + "_blocks"] = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
            tensors[name + "_scales"] = torch.randint(122, 126, (experts, outputs, inputs // 32), dtype=torch.uint8)
        else:
            noise = 0.2 * torch.randn(value.shape)
            tensors[name] = (noise + (1 if "norm" in name else 0)).bfloat16()
    os.makedirs(out, exist_ok=True)
    safetensors.torch.save_file(tensors, os.path.join(out, "model.safetensors"), metadata={"format": "pt"})
    config.architectures = ["GptOssForCausalLM"]
    config.quantization_config = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    config.save_pretrained(out)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.bfloat16)
    first = theirs.model.layers[0].mlp.experts
    assert first.gate_up_proj.shape == (3, 32, 64) and first.gate_up_proj.dtype == torch.bfloat16
    matrices = [first.gate_up_proj.detach().contiguous(), first.down_proj.detach().contiguous()]
    with open(os.path.join(out, "experts.bin"), "wb") as file:
        for matrix in matrices:
            file.write(matrix.view(torch.int16).numpy().astype("<i2").tobytes())
    tokens = (7 * torch.arange(16) % 61).view(2, 8)
    with torch.no_grad():
        theirs.float().eval()(input_ids=tokens).logits.numpy().astype("<f4").tofile(os.path.join(out, "logits.bin"))


if __name__ == "__main__":
    main()
