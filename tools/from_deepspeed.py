"""from_deepspeed.py - makes of a DeepSpeed checkpoint an output folder from which cspeed continues the run.

usage: python3 from_deepspeed.py FOLDER --config ds_config.json --output RUN [--tag TAG]

FOLDER is what model_engine.save_checkpoint wrote, of ZeRO stage 0, 1, 2 or 3, by any number of data-parallel ranks,
with the tag that its file `latest` names, or --tag. What DeepSpeed's ds_to_universal.py makes of such a checkpoint (a
universal checkpoint) is read too, also if AutoTP had cut the tensors: `--tag TAG_universal`. The configuration is the
run's, with a section "cspeed" that names the model and the data. RUN gets one checkpoint: fp32 master weights,
optimizer state, step, learning-rate schedule, loss scale, and the number of samples that were learnt from. What cannot
be carried over is refused or named.

The script writes RUN.state, a folder of safetensors and numbers, and then runs `cspeed import RUN.state RUN --config
ds_config.json`, which compares everything with the configuration and the model. If there is no cspeed on PATH, beside
this script's build or in its installed tree, it prints that command.

It needs Python 3.8, torch 2.4 or later, and deepspeed_state.py beside it, which reads the files; DeepSpeed need not be
installed. Nothing in a pickle is executed, and memory does not grow with the model.
"""
import argparse
import ctypes
import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys

import torch

from deepspeed_state import SLOTS, Refusal, State, allow_classes, load, plain, say, stage_1_or_2, stage_3, universal, \
    unpartitioned

# What DeepSpeed itself puts beside the user's client_state.
OWN_KEYS = {
    "module", "buffer_names", "optimizer", "param_shapes", "frozen_param_shapes", "shared_params",
    "frozen_param_fragments", "lr_scheduler", "data_sampler", "random_ltd", "sparse_tensor_module_names",
    "skipped_steps", "global_steps", "global_samples", "dp_world_size", "mp_world_size", "ds_config", "ds_version",
    "universal_checkpoint_info", "checkpoint_parallel_dimensions",
}


def newest_tag(folder):
    for name in ("latest", "latest_universal"):
        try:
            with open(os.path.join(folder, name)) as file:
                return file.read().strip()
        except FileNotFoundError:
            pass
    raise Refusal(f"{folder} has no file `latest` or `latest_universal`: name the checkpoint with --tag")


def is_universal(folder):
    return os.path.isdir(os.path.join(folder, "zero"))


def find_files(folder):
    """The file of the model, and those of the optimizer in the order of ranks ([]: stage 0, or the universal form)."""
    names = sorted(os.listdir(folder))
    for pattern, what in (("layer_*", "of a pipeline"), ("expp_rank_*", "of experts"), ("*_expert_*", "of experts"),
                          ("offloaded_tensors", "offloaded to NVMe")):
        found = glob.glob(os.path.join(glob.escape(folder), pattern))
        if found:
            raise Refusal(f"{found[0]}: state {what} is not supported")
    ranks = {}
    for name in names:
        found = re.fullmatch(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_00_optim_states\.pt", name)
        if found:
            ranks[int(found[1])] = os.path.join(folder, name)
    if sorted(ranks) != list(range(len(ranks))):
        raise Refusal(f"{folder}: there are files of the optimizer for the ranks {sorted(ranks)} only")
    for name in ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt"):
        if name in names:
            return os.path.join(folder, name), [ranks[rank] for rank in range(len(ranks))]
    raise Refusal(f"{folder} holds no *mp_rank_00_model_states.pt of DeepSpeed")


# ---- numbers ----

def loss_scale_of(wrapper):
    """In the form of a manifest. The optimizer of stage 0 has no hysteresis: the scale falls at each overflow."""
    scaler = wrapper.get("loss_scaler")
    of = scaler.__dict__.get if scaler is not None else wrapper.get
    if "cur_iter" not in (scaler.__dict__ if scaler is not None else wrapper) or not wrapper.get("dynamic_loss_scale"):
        return {"kind": "static", "scale": float(of("cur_scale", 1.0))}
    return {"kind": "dynamic", "scale": float(of("cur_scale")), "hysteresis": int(of("cur_hysteresis", 1)),
            "iteration": int(of("cur_iter")), "last_overflow": int(of("last_overflow_iter", -1))}


def scheduled_steps(model, config, updates):
    schedule = model.get("lr_scheduler")
    if not schedule:
        return updates
    if not config.get("scheduler"):
        say("the learning-rate schedule was the program's own: ds_config.json must name one that gives the same rates "
            "(`cspeed lr` prints them)")
    if "last_batch_iteration" in schedule:
        start = (config.get("scheduler") or {}).get("params", {}).get("last_batch_iteration", -1)
        return schedule["last_batch_iteration"] - start
    if "last_epoch" in schedule:
        return schedule["last_epoch"]
    raise Refusal(f"the state of the learning-rate schedule has no position, but only {sorted(schedule)}")


def optimizer_name(config):
    """As cspeed names it; None if the program made the optimizer."""
    section = config.get("optimizer") or {}
    name = section.get("type")
    if name and name.lower() in ("adam", "adamw"):
        mode = name.lower() == "adamw" or (section.get("params") or {}).get("adam_w_mode", True)
        return "AdamW" if mode else "Adam"
    return name


def client_state_of(model):
    own = {key: value for key, value in model.items() if key not in OWN_KEYS}
    kept = {}
    for key, value in own.items():
        try:
            json.dumps({key: value}, allow_nan=False)
            kept[key] = value
        except (TypeError, ValueError):
            say(f"client_state[{key!r}] is no JSON value and is not carried over")
    return kept


def refuse_what_is_lost(model, whole):
    if model.get("frozen_param_shapes"):
        raise Refusal(f"{len(model['frozen_param_shapes'])} parameters are frozen, which is not supported")
    if model.get("mp_world_size", 1) > 1 and not whole:
        raise Refusal("tensor parallelism has cut the tensors: join them with DeepSpeed's ds_to_universal.py, and name "
                      "the result with --tag")
    if model.get("random_ltd"):
        raise Refusal("random layer token dropping (random_ltd) is not supported")
    if model.get("data_sampler"):
        say("the state of the curriculum's data sampler is not carried over")


def read_tensors(state, folder, model, ranks):
    """The ZeRO stage, and what the optimizer's state has beside tensors. `ranks` has the state of each rank."""
    if is_universal(folder):
        rest = universal(state, os.path.join(folder, "zero"), model)
        return int(rest.get("zero_stage", 1)), rest
    if ranks:
        stage, count = int(ranks[0].get("zero_stage", 1)), ranks[0]["partition_count"]
        count = max(count) if isinstance(count, (list, tuple)) else count
        if count != len(ranks):
            raise Refusal(f"{folder} has files of {len(ranks)} of {count} ranks")
        (stage_3 if stage == 3 else stage_1_or_2)(state, model, ranks)
        return stage, ranks[0]
    if model.get("param_shapes"):
        raise Refusal(f"{folder} has no *_optim_states.pt, the files of the optimizer that every rank has")
    unpartitioned(state, model)
    if model["optimizer"].get("cur_iter") and not str(model.get("ds_version")).startswith("0.14."):
        say("at stage 0 in fp16, newer releases of DeepSpeed (0.19.8 does) divide gradients by the loss scale without "
            "having multiplied the loss by it: Adam's moments are then too small, until some hundred steps are made")
    return 0, model["optimizer"]


def read_checkpoint(folder):
    """The tensors (State) and the numbers (the content of state.json)."""
    model_file, rank_files = find_files(folder)
    model = load(model_file)
    refuse_what_is_lost(model, is_universal(folder))
    files = [load(path) for path in rank_files]
    config = model.get("ds_config") if isinstance(model.get("ds_config"), dict) else {}
    state, tp = State(), int(model.get("mp_world_size") or 1)
    stage, rest = read_tensors(state, folder, model, [file["optimizer_state_dict"] for file in files])
    if len(state.steps) > 1:
        raise Refusal(f"the optimizer has made {sorted(state.steps)} steps, not the same number for all parameters")
    skipped = int(model["skipped_steps"])
    updates = state.steps.pop() if state.steps else int(model["global_steps"]) - skipped
    for group in state.groups:
        group["params"] = [plain(name) for name in group["params"]]
    numbers = {
        "format": "cspeed-training-state", "version": 1, "origin": f"DeepSpeed {model.get('ds_version', '')}".strip(),
        "world_size": int(model.get("dp_world_size") or len(files) or 1) * tp, "tensor_parallel": tp,
        "zero_stage": stage, "global_step": int(model["global_steps"]), "samples": int(model["global_samples"]),
        "skipped_steps": skipped, "optimizer_step": updates,
        "schedule_step": int(scheduled_steps(model, config, updates)), "loss_scale": loss_scale_of(rest),
        "optimizer": optimizer_name(config), "slots": [slot for slot in SLOTS if slot in state.parts],
        "groups": state.groups, "client_state": client_state_of(model),
    }
    return state, numbers


# ---- writing ----

def raw(tensor):
    return (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())


def write_tensors(path, state, kind):
    """A safetensors file in fp32, written part by part."""
    header, offset, parts = {"__metadata__": {"format": "pt"}}, 0, state.parts[kind]
    for name, shape in state.shapes.items():
        bytes_ = 4 * math.prod(shape)
        header[plain(name)] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + bytes_]}
        offset += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in state.shapes.items():
            left = math.prod(shape)
            for part in parts.get(name, []):
                part = part[:left].to(torch.float32).contiguous()
                file.write(raw(part))
                left -= part.numel()
            if left:
                raise Refusal(f"{kind} of {name}: {left} of {math.prod(shape)} elements are in no file")


def write_state(folder, state, numbers):
    for kind in state.parts:
        os.makedirs(os.path.join(folder, kind))
        write_tensors(os.path.join(folder, kind, "model.safetensors"), state, kind)
    with open(os.path.join(folder, "state.json"), "w") as file:
        json.dump(numbers, file, indent=1)


def find_cspeed():
    here = os.path.dirname(os.path.abspath(__file__))
    places = (os.path.join(here, "../build/bin/cspeed"), os.path.join(here, "../../../bin/cspeed"))
    return shutil.which("cspeed") or next((p for p in places if os.access(p, os.X_OK)), None)


def convert(chosen):
    output = chosen.output.rstrip("/")
    folder = output + ".state"
    for path in output, folder:
        if os.path.exists(path):
            raise Refusal(f"{path} is there already: name a new folder")
    if not os.path.isfile(chosen.config):
        raise Refusal(f"{chosen.config}: no such file")
    allow_classes()
    state, numbers = read_checkpoint(os.path.join(chosen.folder, chosen.tag or newest_tag(chosen.folder)))
    try:
        write_state(folder, state, numbers)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    command = [find_cspeed() or "cspeed", "import", folder, output, "--config", chosen.config]
    if not find_cspeed():
        say(f"there is no cspeed on PATH. {folder} is ready; this completes the work: {' '.join(command)}")
        return 0
    code = subprocess.call(command)
    shutil.rmtree(folder)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", help="where DeepSpeed saved")
    parser.add_argument("--tag", help="of the checkpoint; without it, that of the file `latest`")
    parser.add_argument("--config", required=True, metavar="ds_config.json")
    parser.add_argument("--output", required=True, metavar="RUN", help="the output folder to make")
    try:
        return convert(parser.parse_args())
    except Refusal as why:
        say(why)
        return 65
    except FileNotFoundError as why:
        say(why)
        return 66


if __name__ == "__main__":
    sys.exit(main())
