"""foreign_commands.py - the command that each refusal names, run as it stands: its result imports and trains, with the same weights.

    python tests/peers/foreign_commands.py BUILD/bin [NAME...]

For an untied and a tied model; NAME (pickled, file, dcp, ds0, ds1, ds3) tries those alone. Needs torch, transformers and safetensors, deepspeed for
DeepSpeed's checkpoints, and a transformers below 5 with TensorFlow and Flax for theirs: what is
not installed is named and left out. `pip install` is left out of the commands.
"""
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
import transformers
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(__file__))
import hf_logits  # noqa: E402

DEEPSPEED = """
import os, sys
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[3], RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", DS_ACCELERATOR="cpu")
import deepspeed, transformers
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])
config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": int(sys.argv[2][-1])},
          "optimizer": {"type": "Adam", "params": {"lr": 0.0, "torch_adam": True}}}
deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0].save_checkpoint(sys.argv[2])
"""


def make_all(model, chosen):
    """Yields what to import; each is made just before."""
    for folder in ("pickled", "file", "dcp"):
        os.mkdir(folder)
    if chosen("pickled"):
        model.config.save_pretrained("pickled")
        torch.save(model.state_dict(), "pickled/pytorch_model.bin")
        yield "pickled"
    if chosen("file"):
        torch.save({"model": model.state_dict(), "epoch": 3}, "file/it's last.pt")
        yield "file"
        yield "file/it's last.pt"
    if chosen("dcp"):
        dcp.save({"model": model.state_dict()}, checkpoint_id="dcp", no_dist=True)
        yield "dcp"
    for stage in (0, 1, 3) if importlib.util.find_spec("deepspeed") else ():
        if chosen(f"ds{stage}"):
            run([sys.executable, "-c", DEEPSPEED, "whole", f"ds{stage}", str(29760 + stage)])
            yield f"ds{stage}"
            yield f"ds{stage}/global_step0"

RECIPE = {"train_batch_size": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "cspeed": {
    "model": "OUT", "steps": 3, "output": "runs", "export": "trained", "data": {"train": "tokens.bin", "seq_len": 16}}}


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode} of {command}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done


def train(programs):
    """A few steps from OUT as it is, on tokens as nanoGPT writes them; transformers opens the outcome."""
    with open("recipe.json", "w", encoding="utf-8") as file:
        json.dump(RECIPE, file)
    (np.arange(1000) % 61).astype("<u2").tofile("tokens.bin")
    run([f"{programs}/train", "--config", "recipe.json", "--set", "cspeed.device=cpu"])
    transformers.AutoModelForCausalLM.from_pretrained("trained")


def try_one(programs, path, config, wanted):
    refusal = subprocess.run([f"{programs}/cspeed", "import", path, "never"], capture_output=True, text=True)
    assert refusal.returncode != 0 and not os.path.exists("never"), refusal
    commands = [c for c in re.findall("`([^`]*)`", refusal.stderr) if "from_deepspeed.py" not in c]  # from_deepspeed_same.py
    assert commands, refusal.stderr
    for command in commands:
        command = re.sub(r"pip install [^&]*&& ", "", command).replace("python ", f"'{sys.executable}' ")
        run(command, shell=True)
    if not os.path.exists("OUT/config.json"):
        config.save_pretrained("OUT")
    run([f"{programs}/cspeed", "import", "OUT", "imported"])
    got = load_file("imported/model.safetensors")
    same = set(got) == set(wanted) and all(torch.equal(got[name], wanted[name]) for name in wanted)
    train(programs)
    subprocess.run("rm -rf OUT OUT.pt imported runs trained", shell=True, check=True)
    print(f"  {path}: {'same' if same else 'DIFFERS'}", flush=True)
    return same


def try_model(programs, kind, names):
    model = hf_logits.random_model(kind)
    model.save_pretrained("whole")
    wanted = load_file("whole/model.safetensors")
    right = True
    for path in make_all(model, lambda name: not names or name in names):
        try:
            right = try_one(programs, path, model.config, wanted) and right
        except RuntimeError as error:
            right = False
            print(f"  {path}: FAILS: {error}", flush=True)
            subprocess.run("rm -rf OUT OUT.pt imported runs trained", shell=True, check=True)
    return right


def main():
    programs = os.path.realpath(sys.argv[1])
    transformers.logging.set_verbosity_error()
    right = True
    for package in ("deepspeed", "tensorflow", "flax"):
        if not importlib.util.find_spec(package):
            print(f"{package} is not installed")
    for kind in ("llama", "smollm"):
        print(f"{kind}, {'tied' if hf_logits.KINDS[kind][1].get('tie_word_embeddings') else 'untied'}")
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            right = try_model(programs, kind, sys.argv[2:]) and right
            os.chdir("/")
    sys.exit(not right)


if __name__ == "__main__":
    main()
