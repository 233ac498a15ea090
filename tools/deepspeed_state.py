"""deepspeed_state.py - reads the tensors of a DeepSpeed checkpoint, in each of its forms, in terms of parameters.

from_deepspeed.py imports it. Pickles are read with weights_only=True: an object of a class that is not in CLASSES is
refused, and no code of the checkpoint runs. Files are mapped, so memory does not grow with the model.
"""
import math
import os
import re
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
    "deepspeed.checkpoint.universal_checkpoint.SubparamShape": object,
}
SLOTS = ("exp_avg", "exp_avg_sq", "momentum_buffer", "sum")
SETTINGS = ("lr", "betas", "eps", "weight_decay")
# What a file of a universal checkpoint says beside its tensor: how ds_to_universal.py joined the tensor from the parts
# of several ranks. The tensor is whole, in the model's own order, and has no padding of the vocabulary.
JOINED = {"cat_dim", "param_n_sub_params", "sub_param_shape", "vocab_tensor"}
FILES = {"fp32.pt": "weights", "exp_avg.pt": "exp_avg", "exp_avg_sq.pt": "exp_avg_sq"}
# Names that parameters have in Megatron-DeepSpeed, in a pipeline or not.
MEGATRON = re.compile(r"(module\.)*(\d+\.|tied_modules\.|language_model\.(embedding|encoder|output_layer)\.|"
                      r"embedding\.word_embeddings\.|decoder\.layers\.\d+\.self_attention\.)")


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


def entries_of(optimizer):
    """Each entry, in the order of groups, with the param_group that it is in."""
    return [(settings, entry) for settings, entries in zip(optimizer.get("param_groups", []), ids_of(optimizer))
            for entry in entries]


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
        order = entries_of(optimizer)
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


# ---- the universal form ----

def check_names(folder, model):
    """Each parameter has a folder of its name; a tied copy and a buffer may have one."""
    found = set(os.listdir(folder)) - {"optimizer_state.pt"}
    megatron = sorted(filter(MEGATRON.match, found))
    if megatron:
        raise Refusal(f"{os.path.join(folder, megatron[0])}: the names of the parameters are Megatron's, which is not "
                      "supported. Make a Hugging Face folder of the model with Megatron's own converter, and start a new "
                      "run from it (cspeed.model); the optimizer's state is not carried over")
    names = {name for group in model.get("param_shapes") or [] for name in group}
    left = sorted(found - names - set(model.get("shared_params") or ()) - set(model.get("buffer_names") or ()))
    if left:
        raise Refusal(f"{os.path.join(folder, left[0])}: the optimizer has no parameter {left[0]}")


def read_whole(path, shape):
    """The tensor of one file. A file of stage 3 has it flat, without its shape."""
    if not os.path.isfile(path):
        raise Refusal(f"{path} is missing; ds_to_universal.py writes it for each parameter that has had a gradient")
    saved = load(path)
    facts = saved if isinstance(saved, dict) else {"param": saved}
    tensor, more = facts.get("param"), sorted(set(facts) - JOINED - {"param"})
    if more:
        raise Refusal(f"{path} has the key {more[0]}, which is not supported; those of expert parallelism are not")
    if not torch.is_tensor(tensor) or not tensor.is_floating_point():
        raise Refusal(f"{path} holds no tensor of numbers")
    if tensor is saved and tensor.numel() != math.prod(shape):
        raise Refusal(f"{path} has {tensor.numel()} elements, and the parameter has {math.prod(shape)}")
    return tensor.reshape(tuple(shape)) if tensor is saved else tensor


def read_parameter(state, folder, name, shape):
    left = sorted(set(os.listdir(folder)) - {*FILES, "step.pt"})
    if left:
        raise Refusal(f"{os.path.join(folder, left[0])} is no state of an optimizer that cspeed has")
    for file, kind in FILES.items():
        tensor = read_whole(os.path.join(folder, file), shape)
        if tensor.shape != state.shapes.setdefault(name, tensor.shape):
            raise Refusal(f"{os.path.join(folder, file)} has the shape {list(tensor.shape)}, and the weights have "
                          f"{list(state.shapes[name])}")
        state.add(kind, name, tensor)


def universal(state, folder, model):
    """ds_to_universal.py writes a folder for each parameter, with its whole tensors, and what the optimizer's state has
    beside tensors, which is returned. A group of names has one entry of the optimizer, as before the conversion."""
    check_names(folder, model)
    rest = load(os.path.join(folder, "optimizer_state.pt"))
    optimizer, shapes = rest.get("optimizer_state_dict", rest), model.get("param_shapes") or []
    order = entries_of(optimizer)
    if len(shapes) != len(order):
        raise Refusal(f"{folder}: {len(shapes)} groups of names and {len(order)} of optimizer state")
    for names, (settings, entry) in zip(shapes, order):
        for name, shape in names.items():
            own = os.path.join(folder, name)
            if not os.path.isdir(own):
                raise Refusal(f"{own} is missing: the optimizer has a parameter of that name")
            read_parameter(state, own, name, shape)
            step = os.path.join(own, "step.pt")  # stages 1 and 2
            state.count_steps(settings, {"step": load(step)} if os.path.isfile(step) else
                              optimizer.get("state", {}).get(entry, {}))
        state.add_group(settings, names)
    return rest
