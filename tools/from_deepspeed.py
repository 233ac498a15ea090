"""from_deepspeed.py - makes of a DeepSpeed checkpoint an output folder from which cspeed continues the run.

usage: python3 from_deepspeed.py FOLDER --config ds_config.json --output RUN [--tag TAG]

FOLDER is what model_engine.save_checkpoint wrote, of ZeRO stage 0, 1, 2 or 3, by any number of data-parallel ranks,
with the tag that its file `latest` names, or --tag. The configuration is the run's, with a section "cspeed" that names
the model and the data. RUN gets one checkpoint: fp32 master weights, optimizer state, step, learning-rate schedule,
loss scale, and the number of samples that were learnt from. What cannot be carried over is refused or named.

The script writes RUN.state, a folder of safetensors and numbers, and then runs `cspeed import RUN.state RUN --config
ds_config.json`, which compares everything with the configuration and the model. If there is no cspeed on PATH, beside
this script's build or in its installed tree, it prints that command.

It needs Python 3.8 and torch 2.4 or later, nothing else; DeepSpeed need not be installed. Pickles are read with
weights_only=True: an object of a class that is not in CLASSES is refused, and no code of the checkpoint runs. Files are
mapped, so memory does not grow with the model.
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
import warnings

import torch

# The classes of DeepSpeed that its checkpoints contain beside tensors, containers and numbers. Each is read as an
# object with the same attributes; ZeroStageEnum is a number.
CLASSES = {
    "deepspeed.runtime.fp16.loss_scaler.LossScaler": object,
    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler": object,
    "deepspeed.runtime.zero.config.ZeroStageEnum": int,
    "deepspeed.utils.tensor_fragment.fragment_address": object,
}
SLOTS = ("exp_avg", "exp_avg_sq", "momentum_buffer", "sum")
SETTINGS = ("lr", "betas", "eps", "weight_decay")
# What DeepSpeed itself puts beside the user's client_state.
OWN_KEYS = {
    "module", "buffer_names", "optimizer", "param_shapes", "frozen_param_shapes", "shared_params",
    "frozen_param_fragments", "lr_scheduler", "data_sampler", "random_ltd", "sparse_tensor_module_names",
    "skipped_steps", "global_steps", "global_samples", "dp_world_size", "mp_world_size", "ds_config", "ds_version",
    "universal_checkpoint_info", "checkpoint_parallel_dimensions",
}


class Refusal(Exception):
    pass


def say(text):
    print(f"from_deepspeed: {text}", file=sys.stderr, flush=True)


# ---- reading pickles ----

def allow_classes():
    allow = getattr(torch.serialization, "add_safe_globals", None)
    if not allow:
        raise Refusal(f"torch {torch.__version__} cannot read pickles with a list of allowed classes: use torch 2.4 or "
                      "later, which reads the checkpoints of older ones")
    for path, base in CLASSES.items():
        module, name = path.rsplit(".", 1)
        allow([type(name, (base,), {"__module__": module, "__qualname__": name})])


def load(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        except Exception as why:
            found = re.search(r"GLOBAL (\S+)", str(why))
            if not found:
                raise Refusal(f"{path}: {str(why).splitlines()[0]}") from None
            raise Refusal(f"{path} holds an object of the class {found[1]}, which is not one that a checkpoint needs; "
                          "code of a checkpoint is never run. Save it without that object (often in client_state)"
                          ) from None


def newest_tag(folder):
    try:
        with open(os.path.join(folder, "latest")) as file:
            return file.read().strip()
    except FileNotFoundError:
        raise Refusal(f"{folder} has no file `latest`: name the checkpoint with --tag") from None


def find_files(folder):
    """The file of the model, and those of the optimizer in the order of ranks ([]: stage 0)."""
    names = sorted(os.listdir(folder))
    for pattern, what in (("layer_*", "of a pipeline"), ("expp_rank_*", "of experts"), ("*_expert_*", "of experts"),
                          ("*mp_rank_0[1-9]*", "of tensor parallelism"), ("*mp_rank_[1-9]*", "of tensor parallelism"),
                          ("offloaded_tensors", "offloaded to NVMe"),
                          ("zero", "in the universal form (take the checkpoint that it was made from)")):
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


# ---- the state in terms of parameters ----

class State:
    """What one checkpoint says. `parts[kind][name]` is a list of flat tensors that together are the parameter, in fp32
    or another type, with padding at its end; a kind is "weights" or a slot of the optimizer."""

    def __init__(self):
        self.shapes = {}
        self.parts = {"weights": {}}
        self.groups = []
        self.steps = set()

    def add(self, kind, name, part):
        if part.numel():
            self.parts.setdefault(kind, {}).setdefault(name, []).append(part.detach().reshape(-1))

    def add_group(self, settings, names):
        """`settings` is a param_group of the optimizer."""
        chosen = {key: settings[key] for key in SETTINGS if key in settings}
        self.groups.append({"params": list(names), **{k: as_numbers(v) for k, v in chosen.items()}})

    def add_slots(self, name, slots, start, end):
        """Elements start to end of the flat tensors of one entry of the optimizer's state are (a part of) `name`."""
        for key, value in slots.items():
            if torch.is_tensor(value) and value.dim() > 0:
                if key not in SLOTS:
                    raise Refusal(f"the optimizer's state has {key}, which no optimizer of cspeed has")
                self.add(key, name, value.reshape(-1)[start:end])

    def count_steps(self, settings, slots):
        step = slots.get("step", settings.get("step"))
        if step is not None:
            self.steps.add(int(step))


def as_numbers(value):
    return [float(v) for v in value] if isinstance(value, (list, tuple)) else float(value)


def plain(name):
    """The parameter's name in the model itself."""
    while name.startswith(("module.", "_orig_mod.")):
        name = name.split(".", 1)[1]
    return name


def ids_of(optimizer):
    """The entries of optimizer.state_dict()["state"], a list for each param_group."""
    if not isinstance(optimizer, dict) or "param_groups" not in optimizer:
        raise Refusal('the optimizer\'s state has no "param_groups"; checkpoints of "elastic_checkpoint" have none: '
                      "save one without")
    return [group["params"] for group in optimizer["param_groups"]]


def slots_of(optimizer, number):
    slots = optimizer["state"].get(number)
    if not slots:
        raise Refusal("the optimizer has no state yet: no step has been made")
    return slots


def unpartitioned(state, model):
    """Stage 0: the optimizer is in the model's file. It numbers parameters, and gives no names."""
    wrapper = model["optimizer"]
    if not wrapper:
        raise Refusal("the checkpoint has no optimizer state")
    optimizer = wrapper.get("optimizer_state_dict", wrapper)
    names, seen = [], set()
    for name, value in model["module"].items():
        place = (value.data_ptr(), value.shape)
        if name not in (model.get("buffer_names") or []) and place not in seen:
            names.append(name)
            seen.add(place)
    flat = wrapper.get("fp32_groups_flat")
    lists = wrapper.get("fp32_groups")
    entries = ids_of(optimizer)
    taken = [0] * len(entries)  # of each group: elements if it is flat, else parameters
    members = [[] for _ in entries]

    def place_of(group, value):
        """The master weights at the next place of a group, if they can be this parameter's, and the place's end."""
        begin, end = taken[group], taken[group] + (value.numel() if flat else 1)
        if flat:
            master = flat[group].reshape(-1)[begin:end]
        elif begin >= len(entries[group]):
            return None
        else:
            slots = [s for k, s in slots_of(optimizer, entries[group][begin]).items() if k in SLOTS and s is not None]
            master = lists[group][begin] if lists else value
            if any(slot.shape != value.shape for slot in slots):
                return None
        same = master.numel() == value.numel() and torch.equal(master.reshape(value.shape).to(value.dtype), value)
        return (master, begin, end) if same else None

    for name in names:
        value = model["module"][name]
        found = [(group, place_of(group, value)) for group in range(len(entries))]
        found = [(group, place) for group, place in found if place]
        if len(found) != 1:
            raise Refusal(f"stage 0 saves no names with the optimizer's state, and that of {name} is not to be told "
                          "from others: save once with ZeRO stage 1")
        group, (master, begin, end) = found[0]
        taken[group] = end
        members[group].append(name)
        state.shapes[name] = tuple(value.shape)
        state.add("weights", name, master)
        slots = slots_of(optimizer, entries[group][0 if flat else begin])
        state.add_slots(name, slots, *((begin, end) if flat else (0, value.numel())))
        state.count_steps(optimizer["param_groups"][group], slots)
    for group, end in enumerate(taken):
        if end != (flat[group].numel() if flat else len(entries[group])):
            raise Refusal("the optimizer has state for more parameters than the model has")
        state.add_group(optimizer["param_groups"][group], members[group])


def stage_1_or_2(state, model, ranks):
    """A rank has, for each group of the optimizer, one flat partition; its mapping says which piece is whose."""
    shapes = {}
    for group in model.get("param_shapes") or [{n: t.shape for n, t in model["module"].items()}]:
        shapes.update(group)
    members = {}
    for rank in ranks:
        if "param_slice_mappings" not in rank:
            raise Refusal("there is no param_slice_mappings: the checkpoint is of a DeepSpeed before 0.10")
        optimizer = rank["base_optimizer_state"]
        for group, (entry,) in enumerate(ids_of(optimizer)):
            slots, settings = slots_of(optimizer, entry), optimizer["param_groups"][group]
            state.count_steps(settings, slots)
            for name, place in rank["param_slice_mappings"][group].items():
                start, end = place.start, place.start + place.numel
                state.shapes[name] = tuple(shapes[name])
                state.add("weights", name, rank["single_partition_of_fp32_groups"][group][start:end])
                state.add_slots(name, slots, start, end)
                members.setdefault(group, (settings, {}))[1][name] = True
    for group in sorted(members):
        state.add_group(*members[group])


def stage_3(state, model, ranks):
    """A rank has a piece of every parameter, ceil(elements / ranks) long; pieces are flat in sub-groups."""
    shapes = model["param_shapes"]
    for rank in ranks:
        flats, optimizer = rank["fp32_flat_groups"], rank["optimizer_state_dict"]
        order = [(settings, entry) for settings, group in zip(optimizer.get("param_groups", []), ids_of(optimizer))
                 for entry in group]
        if not len(flats) == len(shapes) == len(order):
            raise Refusal(f"{len(shapes)} sub-groups of names, {len(flats)} of weights and {len(order)} of optimizer "
                          "state")
        for flat, names, (settings, entry) in zip(flats, shapes, order):
            slots, start = slots_of(optimizer, entry), 0
            state.count_steps(settings, slots)
            for name, shape in names.items():
                state.shapes[name] = tuple(shape)
                end = start + math.ceil(math.prod(shape) / len(ranks))
                state.add("weights", name, flat.reshape(-1)[start:end])
                state.add_slots(name, slots, start, end)
                start = end
            if start != flat.numel():
                raise Refusal(f"a sub-group has {flat.numel()} elements on a rank, and its parameters {start}")
            if rank is ranks[0]:
                state.add_group(settings, names)


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


def refuse_what_is_lost(model):
    if model.get("frozen_param_shapes"):
        raise Refusal(f"{len(model['frozen_param_shapes'])} parameters are frozen, which is not supported")
    if model.get("random_ltd"):
        raise Refusal("random layer token dropping (random_ltd) is not supported")
    if model.get("mp_world_size", 1) > 1:
        raise Refusal("tensor parallelism is not supported")
    if model.get("data_sampler"):
        say("the state of the curriculum's data sampler is not carried over")


def read_checkpoint(folder):
    """The tensors (State) and the numbers (the content of state.json)."""
    model_file, rank_files = find_files(folder)
    model = load(model_file)
    refuse_what_is_lost(model)
    files = [load(path) for path in rank_files]
    ranks = [file["optimizer_state_dict"] for file in files]
    config = model.get("ds_config") if isinstance(model.get("ds_config"), dict) else {}
    state, stage, wrapper = State(), 0, model["optimizer"] or {}
    if ranks:
        wrapper = ranks[0]
        stage, count = int(wrapper.get("zero_stage", 1)), wrapper["partition_count"]
        count = max(count) if isinstance(count, (list, tuple)) else count
        if count != len(ranks):
            raise Refusal(f"{folder} has files of {len(ranks)} of {count} ranks")
        (stage_3 if stage == 3 else stage_1_or_2)(state, model, ranks)
    elif model.get("param_shapes"):
        raise Refusal(f"{folder} has no *_optim_states.pt, the files of the optimizer that every rank has")
    else:
        unpartitioned(state, model)
        if wrapper.get("cur_iter") and not str(model.get("ds_version")).startswith("0.14."):
            say("at stage 0 in fp16, newer releases of DeepSpeed (0.19.8 does) divide gradients by the loss scale without "
                "having multiplied the loss by it: Adam's moments are then too small, until some hundred steps are made")
    if len(state.steps) > 1:
        raise Refusal(f"the optimizer has made {sorted(state.steps)} steps, not the same number for all parameters")
    skipped = int(model["skipped_steps"])
    updates = state.steps.pop() if state.steps else int(model["global_steps"]) - skipped
    for group in state.groups:
        group["params"] = [plain(name) for name in group["params"]]
    numbers = {
        "format": "cspeed-training-state", "version": 1, "origin": f"DeepSpeed {model.get('ds_version', '')}".strip(),
        "world_size": int(model.get("dp_world_size") or len(ranks) or 1), "zero_stage": stage,
        "global_step": int(model["global_steps"]), "samples": int(model["global_samples"]), "skipped_steps": skipped,
        "optimizer_step": updates, "schedule_step": int(scheduled_steps(model, config, updates)),
        "loss_scale": loss_scale_of(wrapper), "optimizer": optimizer_name(config),
        "slots": [slot for slot in SLOTS if slot in state.parts], "groups": state.groups,
        "client_state": client_state_of(model),
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
