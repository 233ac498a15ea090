"""from_deepspeed_same.py - a run that began in DeepSpeed and goes on in cspeed, beside its continuation in DeepSpeed.

usage: python tests/peers/from_deepspeed_same.py [--build build/bin] [--only PATTERN] [--python PYTHON]
           [--golden FOLDER]

A tiny GPT-2 and a tiny Llama of transformers train eight steps with DeepSpeed on its CPU accelerator over Gloo, at
every ZeRO stage, on one rank and on two, in fp32, bf16 and fp16: AdamW under WarmupDecayLR, clipping, gradient
accumulation. They save and go on for five steps. tools/from_deepspeed.py converts what was saved, and cspeed's train
makes the same five steps on the same samples, on one rank. Prints a line a case with the greatest relative difference
of a loss, and ends with 1 where one is above the bound of its precision (BOUNDS), or a loss scale differs. At the end
checkpoints are damaged, and an object of another class is put into one; each must be refused by name.

The cases are named MODEL-PRECISION-sSTAGE-rRANKS, with -groups behind it where the program gives DeepSpeed an
optimizer of two parameter groups, -fused where stage 0 keeps its masters as it does for DeepSpeed's fused optimizer,
one flat tensor a group, -accum where gradients accumulate in fp32 (DeepSpeed's BF16_Optimizer), -tp where the ranks are
a group of tensor parallelism (AutoTP), and -universal where ds_to_universal.py converts what was saved. --only
"gpt2-*-s0-*" takes those whose names match. --python is the interpreter with DeepSpeed, transformers and torch, this
one by default.

--golden writes what test_training_state compares with: the folder that from_deepspeed.py gives to `cspeed import`, with
its configuration, its data, and DeepSpeed's losses. The case that --only names is byte-fp32-s2-r2, a smaller GPT-2, for
tests/golden/from_deepspeed, and tiny-fp32-s1-r2-tp-universal, a smaller Llama, for tests/golden/from_universal.
"""
import argparse
import array
import fnmatch
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

STEPS, MORE = 8, 5  # fewer than the loss scale needs to double again: DeepSpeed halves the gradients of such a step
BATCH, LENGTH, VOCAB, ACCUMULATION = 8, 24, 61, 2
BOUNDS = {"fp32": 1e-6, "bf16": 1e-3, "fp16": 1e-3}
TAG = f"global_step{STEPS}"
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools")
MODELS = {
    "byte": {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 24, "vocab_size": VOCAB,
             "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": 0.1},
    "tiny": {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
             "hidden_size": 8, "intermediate_size": 10, "max_position_embeddings": 24, "vocab_size": VOCAB,
             "tie_word_embeddings": False, "initializer_range": 0.1},
    "gpt2": {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 24, "n_positions": 32, "vocab_size": VOCAB,
             "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": 0.1},
    "llama": {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "hidden_size": 24, "intermediate_size": 52, "max_position_embeddings": 32, "vocab_size": VOCAB,
              "tie_word_embeddings": False, "initializer_range": 0.1},
    "phi3": {"model_type": "phi3", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "hidden_size": 24, "intermediate_size": 52, "max_position_embeddings": 32,
             "original_max_position_embeddings": 32, "vocab_size": VOCAB, "pad_token_id": None,
             "initializer_range": 0.1},
}
# transformers' Phi-3 cannot have a part of the heads, so only its other fused tensor is cut.
RULES = {"phi3": {"partition_config": {"use_default_specs": False, "layer_specs": [
    {"patterns": [r".*\.gate_up_proj\.weight$"], "partition_type": "column", "shape": [2, -1], "partition_dim": 0},
    {"patterns": [r".*\.down_proj\.weight$"], "partition_type": "row"}]}}}


def cases():
    every = [f"{model}-{dtype}-s{stage}-r{ranks}" for dtype in BOUNDS for model in ("gpt2", "llama") for stage in range(4)
             for ranks in (1, 2)]
    groups = [f"gpt2-{dtype}-s{stage}-r2-groups" for dtype in BOUNDS for stage in range(4)]
    fused = [f"gpt2-{dtype}-s0-r2-{more}" for dtype in ("bf16", "fp16") for more in ("fused", "groups-fused")]
    universal = [f"{model}-{dtype}-s{stage}-r2{more}-universal" for dtype in BOUNDS for stage in (1, 2, 3)
                 for model, more in (("gpt2", ""), ("llama", ""), ("llama", "-tp"), ("phi3", "-tp"))]
    universal += [f"gpt2-fp32-s{stage}-r2-groups-universal" for stage in (1, 2, 3)] + ["gpt2-bf16-s1-r2-accum-universal"]
    return every + groups + fused + universal + ["gpt2-bf16-s1-r2-accum", "gpt2-bf16-s1-r2-groups-accum"]


def tokens():
    """A text with something to learn: a token follows from the one before it, or one in ten is drawn."""
    generator = random.Random(5)
    text = [1]
    while len(text) < (STEPS + MORE) * BATCH * LENGTH + 1:
        drawn = generator.randrange(VOCAB)
        text.append(drawn if generator.random() < 0.1 else (5 * text[-1] + 7) % VOCAB)
    return text


def config(case):
    model, dtype, stage, _, *more = case.split("-")
    settings = {
        "train_batch_size": BATCH, "gradient_accumulation_steps": ACCUMULATION, "gradient_clipping": 1.0,
        "zero_optimization": {"stage": int(stage[1:])}, "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
                                                  "torch_adam": True}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-2,
                                                          "warmup_num_steps": 4, "total_num_steps": 20}},
        "cspeed": {
            "model": MODELS[model], "steps": STEPS + MORE, "threads": 1, "products": "fixed", "metrics": "metrics.jsonl",
            "data": {"train": "train.bin", "seq_len": LENGTH, "shuffle": False},
            "save_interval": 0, "eval_interval": 0}}
    if dtype != "fp32":
        settings[dtype] = {"enabled": True}
    if "tp" in more:
        settings["tensor_parallel"] = {"autotp_size": ranks_of(case), **RULES.get(model, {})}
    if "accum" in more:
        settings["data_types"] = {"grad_accum_dtype": "fp32"}
    if dtype == "fp16":
        settings["fp16"].update(initial_scale_power=12, loss_scale_window=6)
    if "groups" not in more:  # DeepSpeed's own parameter group decays vectors too
        settings["cspeed"]["param_groups"] = [{"params": "*", "weight_decay": 0.1}]
    return settings


# ---- DeepSpeed's part ----

def model_of(torch, name):
    import transformers
    settings = dict(MODELS[name])
    kind = settings.pop("model_type")
    classes = {"gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
               "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
               "phi3": (transformers.Phi3Config, transformers.Phi3ForCausalLM)}[kind]
    torch.manual_seed(7)
    return classes[1](classes[0](**settings))


def scale_of(engine):
    """The loss scale of the next step, in whichever place the optimizer of this stage keeps it."""
    for holder in ("loss_scaler", "loss_scale_config"):
        if hasattr(engine.optimizer, holder):
            return float(getattr(engine.optimizer, holder).cur_scale)
    return float(getattr(engine.optimizer, "cur_scale", 1))


def train(engine, torch, windows, steps, rank, ranks):
    """The loss scale and the mean loss, over all ranks and micro-batches, of each of the steps. In fp16 the gradients of
    the first one overflow, so that it is skipped."""
    losses, scales, micro = [], [], BATCH // ACCUMULATION // ranks
    for step in steps:
        total = torch.zeros(())
        scales.append(scale_of(engine))
        for part in range(ACCUMULATION):
            first = step * BATCH + (part * ranks + rank) * micro
            batch = windows[first:first + micro]
            logits = engine(batch[:, :-1]).logits.float()
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), batch[:, 1:].reshape(-1))
            engine.backward(loss * 1e30 if step == 0 and engine.fp16_enabled() else loss)
            engine.step()
            total += loss.detach() / ACCUMULATION / torch.distributed.get_world_size()
        torch.distributed.all_reduce(total)
        losses.append(total.item())
    return scales, losses


def train_and_save(torch, deepspeed, folder, case):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if "-tp" in case:  # all ranks read the same samples
        rank, ranks = 0, 1
    settings, model, optimizer = config(case), model_of(torch, case.split("-")[0]), None
    del settings["cspeed"]
    if "fused" in case:  # it needs not to be compiled for that
        deepspeed.runtime.engine.FusedAdam = torch.optim.AdamW
    if "groups" in case:
        settings.pop("optimizer")
        groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=settings,
                                  model_parameters=None if optimizer else model.parameters())[0]
    text = torch.tensor(tokens())
    windows = torch.stack([text[i * LENGTH:(i + 1) * LENGTH + 1] for i in range((STEPS + MORE) * BATCH)])
    _, before = train(engine, torch, windows, range(STEPS), rank, ranks)
    engine.save_checkpoint(os.path.join(folder, "ds"), client_state={"note": ["kept", 1]})
    scales, after = train(engine, torch, windows, range(STEPS, STEPS + MORE), rank, ranks)
    return {"before": before, "after": after, "scales": scales, "version": deepspeed.__version__, "torch": torch.__version__}


def deepspeed_part(folder, cases_here):
    """All cases of one number of ranks; each writes FOLDER/CASE/losses.json."""
    import torch
    import deepspeed
    torch.set_num_threads(1)
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # it would be compiled at each start
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    accelerator = type(deepspeed.accelerator.get_accelerator())
    accelerator.is_fp16_supported = lambda _: True  # by PyTorch on CPUs it is
    accelerator.supported_dtypes = lambda _: [torch.float, torch.bfloat16, torch.half]
    for case in cases_here:
        place = os.path.join(folder, case)
        try:
            result = train_and_save(torch, deepspeed, place, case)
        except Exception as why:  # all ranks fail in the same way, and the other cases go on
            result = {"error": f"{type(why).__name__}: {why}"}
        if os.environ["RANK"] == "0":
            with open(os.path.join(place, "losses.json"), "w") as file:
                json.dump(result, file)
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # DeepSpeed's threads do not always end with the interpreter


# ---- cspeed's part ----

def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout + done.stderr


def tag_of(case):
    return TAG + ("_universal" if "universal" in case else "")


def ranks_of(case):
    return int(case.split("-")[3][1:])


def prepare(chosen, wanted, folder):
    """Makes FOLDER/CASE with train.bin, ds_config.json, ds (DeepSpeed's checkpoint) and losses.json."""
    for case in wanted:
        os.mkdir(os.path.join(folder, case))
        with open(os.path.join(folder, case, "train.bin"), "wb") as file:
            array.array("H", tokens()).tofile(file)
        with open(os.path.join(folder, case, "ds_config.json"), "w") as file:
            json.dump(config(case), file, indent=1)
    environment = dict(os.environ, DS_ACCELERATOR="cpu")
    for ranks, cut in ((1, False), (2, False), (2, True)):  # AutoTP changes what the process has in common
        some = [case for case in wanted if ranks_of(case) == ranks and ("-tp" in case) == cut]
        if some:
            run([chosen.python, os.path.abspath(__file__), "--folder", folder, "--ranks", str(ranks), "--cases", *some],
                env=environment)
    for case in wanted:
        saved = os.path.join(folder, case, "ds", TAG)
        if "universal" in case and os.path.isdir(saved):
            run([chosen.python, "-m", "deepspeed.checkpoint.ds_to_universal", "--inject_missing_state", "--input_folder",
                 saved, "--output_folder", saved + "_universal", "--num_extract_workers", "1", "--num_merge_workers",
                 "1"], env=environment)


def theirs_of(folder):
    with open(os.path.join(folder, "losses.json")) as file:
        theirs = json.load(file)
    if "error" in theirs:
        raise RuntimeError(f"in DeepSpeed: {theirs['error'][:500]}")
    return theirs


def ours_of(chosen, folder):
    build = os.path.abspath(chosen.build)
    environment = dict(os.environ, PATH=build + ":" + os.environ["PATH"])
    said = run([sys.executable, os.path.join(TOOLS, "from_deepspeed.py"), "ds", "--config", "ds_config.json", "--output",
                "run", "--tag", tag_of(folder)], cwd=folder, env=environment)
    if "warning" in said:
        raise RuntimeError(said)
    run([os.path.join(build, "train"), "--config", "ds_config.json", "--output", "run", "--set",
         "tensor_parallel.autotp_size=1"], cwd=folder)
    with open(os.path.join(folder, "run/metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    ours = [line for line in lines if line.get("loss") is not None and "lr" in line]
    if len(ours) != MORE:
        raise RuntimeError(f"{len(ours)} losses, not {MORE}")
    return [line["loss"] for line in ours], [line["loss_scale"] for line in ours]


def compare(chosen, folder, case):
    """Prints the case's line; true if its losses are within the bound."""
    bound = BOUNDS[case.split("-")[1]]
    try:
        theirs = theirs_of(os.path.join(folder, case))
        if "-fp16-s0" in case and not theirs["version"].startswith("0.14."):
            print(f"{case:32} left out: DeepSpeed {theirs['version']} does not scale the loss here", flush=True)
            return True
        ours, scales = ours_of(chosen, os.path.join(folder, case))
        if scales != theirs["scales"]:
            raise RuntimeError(f"loss scales {scales}, in DeepSpeed {theirs['scales']}")
    except RuntimeError as why:
        print(f"{case:32} FAILED {why}", flush=True)
        return False
    apart = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs["after"]))
    print(f"{case:32} loss {theirs['before'][0]:.4f} -> {theirs['after'][0]:.4f} .. {theirs['after'][-1]:.4f}  "
          f"apart {apart:.1e}{f' ABOVE {bound}' if apart > bound else ''}  DeepSpeed {theirs['version']}, "
          f"torch {theirs['torch']}", flush=True)
    return apart <= bound


def check_refusal(chosen, folder):
    """True if an object of another class in the checkpoint is refused by its name."""
    import torch
    [path] = glob.glob(os.path.join(folder, "ds", tag_of(folder), "*mp_rank_00_model_states.pt"))
    torch.save({**torch.load(path, weights_only=False), "options": argparse.Namespace(lr=1)}, path)
    shutil.rmtree(os.path.join(folder, "run"))
    try:
        ours_of(chosen, folder)
    except RuntimeError as why:
        refused = "65" in str(why) and "argparse.Namespace" in str(why)
    else:
        refused = False
    print(f"an object of another class is {'refused' if refused else 'READ'}", flush=True)
    return refused


def change(torch, folder, what):
    """Damages a universal checkpoint of a Llama, and returns words of the refusal."""
    norm = os.path.join(folder, "zero/model.norm.weight")
    slot, model = os.path.join(norm, "exp_avg.pt"), os.path.join(folder, "mp_rank_00_model_states.pt")
    files = [os.path.join(norm, f"{name}.pt") for name in ("fp32", "exp_avg", "exp_avg_sq")]
    if what == "no slot":
        os.remove(slot)
        return "exp_avg.pt is missing"
    if what == "no parameter":
        shutil.rmtree(norm)
        return "model.norm.weight is missing: the optimizer has a parameter"
    if what == "one shape":
        torch.save({"param": torch.ones(7), "cat_dim": 0}, slot)
        return "exp_avg.pt has the shape [7]"
    if what == "all shapes":
        for path in files:
            torch.save({"param": torch.ones(7), "cat_dim": 0}, path)
        return "1 of another shape (model.norm.weight is [7]"
    if what == "integers":
        torch.save({"param": torch.ones(24, dtype=torch.int64)}, slot)
        return "exp_avg.pt holds no tensor of numbers"
    if what == "experts":
        torch.save({"param": torch.ones(24), "is_expert_param": True}, slot)
        return "exp_avg.pt has the key is_expert_param"
    if what == "another class":
        torch.save({"param": argparse.Namespace(lr=1)}, slot)
        return "an object of the class argparse.Namespace"
    if what == "another slot":
        torch.save(torch.ones(24), os.path.join(norm, "momentum_buffer.pt"))
        return "momentum_buffer.pt is no state of an optimizer"
    if what == "another parameter":
        shutil.copytree(norm, os.path.join(folder, "zero/model.other.weight"))
        return "the optimizer has no parameter model.other.weight"
    if what == "Megatron's names":
        os.rename(norm, os.path.join(folder, "zero/4.input_layernorm.weight"))
        return "zero/4.input_layernorm.weight: the names of the parameters are Megatron's"
    saved = torch.load(model, weights_only=False)
    saved["ds_config"]["optimizer"]["type"] = "OneBitAdam"
    torch.save(saved, model)
    return "names the optimizer AdamW, but DeepSpeed"


def check_universal_refusals(chosen, folder):
    """True if each damage is refused with the right words, and neither the output nor a part of it is left."""
    import torch
    path, good = os.path.join(folder, "ds", tag_of(folder)), True
    os.rename(path, path + ".whole")
    for what in ("no slot", "no parameter", "one shape", "all shapes", "integers", "experts", "another class",
                 "another slot", "another parameter", "Megatron's names", "another optimizer"):
        shutil.copytree(path + ".whole", path)
        shutil.rmtree(os.path.join(folder, "run"), ignore_errors=True)
        words, said = change(torch, path, what), "nothing"
        try:
            ours_of(chosen, folder)
        except RuntimeError as why:
            said = str(why)
        refused = words in said and not glob.glob(os.path.join(folder, "run*"))
        print(f"universal, {what:18} {'refused' if refused else f'NOT REFUSED by {words!r}: {said}'}", flush=True)
        good = good and refused
        shutil.rmtree(path)
    return good


def write_golden(chosen):
    case = chosen.only
    sys.path.insert(0, TOOLS)
    import from_deepspeed
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, case)
        prepare(chosen, [case], top)
        theirs_of(folder)
        from_deepspeed.allow_classes()
        state = from_deepspeed.read_checkpoint(os.path.join(folder, "ds", tag_of(case)))
        from_deepspeed.write_state(os.path.join(folder, "state"), *state)
        for name in ("train.bin", "ds_config.json", "losses.json", "state"):
            shutil.move(os.path.join(folder, name), os.path.join(chosen.golden, name))
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/bin")
    parser.add_argument("--only", default="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--golden", metavar="FOLDER")
    for name, more in (("--cases", {"nargs": "+"}), ("--folder", {}), ("--ranks", {"type": int})):
        parser.add_argument(name, help=argparse.SUPPRESS, **more)  # DeepSpeed's part, in processes of its own
    chosen = parser.parse_args()
    if chosen.cases and "RANK" in os.environ:
        deepspeed_part(chosen.folder, chosen.cases)
    if chosen.cases:
        from step_models import start_ranks
        return start_ranks(chosen.ranks, 1)
    if chosen.golden:
        return write_golden(chosen)
    wanted = fnmatch.filter(cases(), chosen.only)
    with tempfile.TemporaryDirectory() as folder:
        prepare(chosen, wanted, folder)
        good = [compare(chosen, folder, case) for case in wanted]
        good.append(check_refusal(chosen, os.path.join(folder, wanted[0])))
        damaged = [case for case in wanted if fnmatch.fnmatch(case, "llama-fp32-s1-*-tp-universal")]
        good += [check_universal_refusals(chosen, os.path.join(folder, case)) for case in damaged]
        return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
