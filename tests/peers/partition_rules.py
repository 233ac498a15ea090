"""Says which rule of tests/programs/test_mesh_programs.c DeepSpeed (0.19.8) gives each matrix of a Llama of one block.

    python tests/peers/partition_rules.py

Prints the number and the type of the rule by name, and "-" for a matrix that stays whole.
"""
from deepspeed.module_inject.autotp_config import AutoTPConfig

RULES = AutoTPConfig.from_dict({"layer_specs": [
    {"patterns": [r".*\.o_proj\.weight$", r".*\.down_proj\.weight$"], "partition_type": "row"},
    {"patterns": [r".*\.[qkv]_proj\.weight$"], "partition_type": "COLUMN", "model_types": ["Llama"]},
    {"patterns": [r"mlp\.up_proj"]},
    {"patterns": [".*up_proj.*"], "partition_type": "row"},
    {"patterns": [".*gate_proj"], "partition_type": "skip"},
    {"patterns": [".*o_proj"]},
    {"patterns": [".*norm.*"], "partition_type": "skip"},
    {"patterns": [".*"], "model_types": ["gpt2"]},
    {"patterns": ["model.embed_tokens"]},
]})
BLOCK = "model.layers.0."
NAMES = ["model.embed_tokens", *(BLOCK + "self_attn." + name for name in ("q_proj", "k_proj", "v_proj", "o_proj")),
         *(BLOCK + "mlp." + name for name in ("gate_proj", "up_proj", "down_proj")), "lm_head"]

for name in NAMES:
    rule = RULES.find_matching_spec(name + ".weight", "llama")
    number = next((i for i, each in enumerate(RULES.layer_specs) if each is rule), None)
    print(f"{name}.weight", "-" if rule is None else f"{number} {rule.partition_type.value}")
