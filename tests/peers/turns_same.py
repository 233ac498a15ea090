"""turns_same.py TEMPLATE.jinja... [--bin build/bin] - compares the samples of conversations with transformers' apply_chat_template.

`pack --turns` writes conversations with byte tokens. Each sample must be the text that transformers makes of the same messages:
the whole conversation, or the messages up to one answer; and the same whether the rows come from a .jsonl file, a list in a .json
file or a Parquet file. The messages have null keys, parts, reasoning under its three names, and calls of tools. Needs transformers
and pyarrow; qwen3.jinja of TRL's chat_templates is a template that writes earlier messages differently.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

import pyarrow
import pyarrow.parquet
from transformers.utils.chat_template_utils import _normalize_chat_messages, render_jinja_template


def say(role, content, **more):
    return {"role": role, "content": content, **more}


CALL = [{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]
ROWS = [
    [say("user", "q"), say("assistant", "a")],
    [say("user", "p"), say("assistant", "a"), say("user", "q"), say("assistant", "b")],
    [say("user", "q"), say("assistant", "a", reasoning="because")],
    [say("user", "q"), say("assistant", "a", thinking="because"), say("user", "r"), say("assistant", "b", reasoning_content="so")],
    [say("user", "q"), say("assistant", "a", tool_calls=None, reasoning=None)],
    [say("user", "q"), say("assistant", None, tool_calls=CALL), say("tool", "2"), say("assistant", "it is 2")],
    [say("system", "s"), say("user", "q"), say("assistant", "a"), say("user", "r"), say("assistant", "b"), say("user", "t")],
]


def render(template, messages):
    return render_jinja_template([_normalize_chat_messages(messages)], chat_template=template, eos_token="</s>")[0][0]


def documents(folder):
    """The texts of the documents of a shard whose tokens are bytes."""
    with open(os.path.join(folder, "train-00000.bin"), "rb") as file:
        data = file.read()
    width = struct.unpack_from("<I", data, 12)[0]
    count, number, index = struct.unpack_from("<QQQ", data, 24)
    tokens = [int.from_bytes(data[64 + i * width:64 + (i + 1) * width], "little") for i in range(count)]
    starts = list(struct.unpack_from(f"<{number}Q", data, index)) + [count]
    return [bytes(tokens[a:b]).decode() for a, b in zip(starts, starts[1:])]


def write(folder, messages):
    """The same row in three files."""
    names = [os.path.join(folder, name) for name in ("row.jsonl", "row.json", "row.parquet")]
    row = {"messages": messages}
    with open(names[0], "w", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    with open(names[1], "w", encoding="utf-8") as file:
        json.dump([row], file, indent=1)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), names[2])
    return names


def pack(program, template, turns, name, folder):
    output = os.path.join(folder, "data")
    done = subprocess.run([program, "--template", template, "--turns", turns, "--valid", "0", "--output", output, name],
                          capture_output=True, text=True)
    if done.returncode:
        return (done.stdout + done.stderr).strip().splitlines()[-1]
    return documents(output)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("templates", nargs="+")
    parser.add_argument("--bin", default="build/bin")
    given = parser.parse_args()
    same = wrong = refused = 0
    for path in given.templates:
        with open(path, encoding="utf-8") as file:
            template = file.read()
        for messages in ROWS:
            answers = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
            try:
                each = [render(template, messages[:i + 1]) for i in answers]
                wanted = {"auto": ([render(template, messages)], each), "all": (each,), "last": (each[-1:],)}
            except Exception as error:
                print(f"{path}: transformers refuses it: {error}")
                continue
            for turns, choices in wanted.items():
                with tempfile.TemporaryDirectory() as folder:
                    got = [pack(os.path.join(given.bin, "pack"), path, turns, name, tempfile.mkdtemp(dir=folder))
                           for name in write(folder, messages)]
                if isinstance(got[0], str):
                    refused += 1
                    print(f"{path}, {turns}: {got[0]}")
                elif got[0] in choices and got[0] == got[1] == got[2]:
                    same += 1
                else:
                    wrong += 1
                    print(f"{path}, {turns}, {messages}\n  wanted {choices}\n  got    {got}")
    print(f"{same} are the same, {wrong} are not, {refused} are refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
