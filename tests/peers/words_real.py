"""words_real.py - the words of docs/from-trainer.md against the libraries that have them.

    python tests/peers/words_real.py BUILD/bin

Needs transformers, trl, peft and accelerate. Fails if the page has no row for an argument of TrainingArguments, SFTConfig,
DPOConfig or LoraConfig, or of `accelerate launch` that is about the training, and prints the words that these libraries no
longer have."""
import dataclasses
import re
import subprocess
import sys

from accelerate.commands.launch import launch_command_parser
from peft import LoraConfig
from transformers import TrainingArguments
from trl import DPOConfig, SFTConfig


def fields(kind):
    return {f.name for f in dataclasses.fields(kind)}


page = subprocess.run([sys.argv[1] + "/cspeed", "config", "--words"], check=True, capture_output=True, text=True).stdout
words = {}
for names, owners in re.findall(r"^\| (`.*?`) \| (.*?) \|", page, re.M):
    for name in re.findall(r"`(.*?)`", names):
        words.setdefault(name, set()).update(re.split(r", | and ", owners))
keys = open("docs/keys.md").read()
own = set(re.findall(r"^- `(\w+)`", keys, re.M))

trainer, trl = fields(TrainingArguments), fields(SFTConfig) | fields(DPOConfig)
launch = {a.dest for a in launch_command_parser()._actions}
have = {"Trainer": trainer, "TRL": trl, "PEFT": fields(LoraConfig), "Accelerate": launch}
for owner, names in have.items():
    claimed = {w for w, owners in words.items() if owner in owners}
    print(owner, "no longer has:", *sorted(claimed - names - {"accelerate", "trl", "sft", "dpo"}))
missing = (trainer | trl | fields(LoraConfig)) - set(words) - own
print("no row:", *sorted(missing))
print("no row, accelerate launch:", *sorted(launch - set(words) - own))
sys.exit(bool(missing))
