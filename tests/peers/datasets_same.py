#!/usr/bin/env python3
"""datasets_same.py [--bin build/bin] [--rows 500] - compares the rows that cspeed reads with those of Hugging Face's `datasets`.

Needs `datasets` and a cspeed with libcspeed_arrow.so. Random rows are saved in every format that both know; `pack` makes
shards of them, in which each token is a byte, and each document must be what `datasets` gives for the row.
"""
import argparse
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import datasets
import pyarrow as pa

LETTERS = "abc xyz\n\t\"\\{}[]\u00e9\u00df\u4e2d\u6587\U0001f600\u200b\x01\x7f"


def text(rng):
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 60)))


def rows(rng, count):
    chats = [[{"role": ["user", "assistant"][i % 2], "content": text(rng)} for i in range(2 * rng.randint(1, 3))]
             for _ in range(count)]
    return {
        "text": datasets.Dataset.from_dict({"text": [text(rng) for _ in range(count)], "extra": list(range(count))}),
        "chat": datasets.Dataset.from_dict({"messages": chats, "score": [rng.random() for _ in range(count)]}),
        "pair": datasets.Dataset.from_dict({"prompt": [text(rng) for _ in range(count)],
                                            "completion": [text(rng) for _ in range(count)]}),
        "tokens": datasets.Dataset.from_dict({"input_ids": [[rng.randrange(256) for _ in range(rng.randint(1, 40))]
                                                            for _ in range(count)]}),
    }


def plain(messages):
    """What the template plain writes, for a tokenizer of bytes: contents are stripped as by Jinja's trim."""
    return "".join(m["role"].capitalize() + ": " + m["content"].strip() + "\n\n" for m in messages)


def expected(kind, row):
    if kind == "tokens":
        return bytes(row["input_ids"])
    joined = {"text": lambda: row["text"], "chat": lambda: plain(row["messages"]),
              "pair": lambda: row["prompt"] + row["completion"]}[kind]()
    return joined.encode()


def documents(path):
    with open(path, "rb") as file:
        raw = file.read()
    magic, version, width, _, count, number, index = struct.unpack_from("<8sIIQQQQ", raw)
    assert (magic, version, width) == (b"CSTOKENS", 1, 2), (magic, version, width)
    tokens = struct.unpack_from(f"<{count}H", raw, 64)
    starts = struct.unpack_from(f"<{number}Q", raw, index) + (count,)
    return [bytes(tokens[a:b]) for a, b in zip(starts, starts[1:])]


def write_gzip(data, path):
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for row in data:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def write_list(data, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(list(data), file, indent=1)


def write_file(data, path):
    with pa.ipc.new_file(path, data.data.table.schema) as writer:
        writer.write_table(data.data.table)


WRITERS = {
    "a.parquet": lambda data, path: data.to_parquet(path, batch_size=97),
    "saved": lambda data, path: data.save_to_disk(path, num_shards=3),
    "file.arrow": write_file,
    "lines.jsonl": lambda data, path: data.to_json(path),
    "lines.jsonl.gz": write_gzip,
    "list.json": write_list,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--rows", type=int, default=500)
    args = parser.parse_args()
    datasets.disable_progress_bars()
    faults = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, data in rows(random.Random(7), args.rows).items():
            for name, write in WRITERS.items():
                source = os.path.join(folder, kind + "-" + name)
                write(data, source)
                command = [os.path.join(args.bin, "pack"), "--valid", "0", "--output", os.path.join(folder, "packed"), source]
                subprocess.run(command + (["--template", "plain"] if kind == "chat" else []), check=True, capture_output=True)
                got = documents(os.path.join(folder, "packed", "train-00000.bin"))
                wanted = [expected(kind, row) for row in data]
                differ = [i for i, (a, b) in enumerate(zip(got, wanted)) if a != b]
                compared += len(wanted)
                if len(got) != len(wanted) or differ:
                    faults += 1
                    print(f"{kind} {name}: {len(got)} rows of {len(wanted)}; differ: {differ[:3]}")
                    print(*[(got[i], wanted[i]) for i in differ[:1]])
    print(f"{compared} rows compared, {faults} files differ")
    return faults != 0


if __name__ == "__main__":
    sys.exit(main())
