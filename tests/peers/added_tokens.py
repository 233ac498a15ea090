"""added_tokens.py TOKEN_LINES [GOLDEN] - the tokens of folders whose added tokens lie beside the vocabulary, as AutoTokenizer.

Each folder has a vocabulary (tokenizer.json, vocab.json with merges.txt, or tokenizer.model) and some of tokenizer_config.json,
special_tokens_map.json, added_tokens.json. Every text must become the tokens that transformers makes of it, and the folders in
REFUSED must be refused. With GOLDEN, the folders and the tokens of transformers are written to this file, which test_tokenizer
reads. TOKEN_LINES is build/bin/token_lines. Needs transformers 5 and sentencepiece.
"""
import base64
import itertools
import json
import os
import struct
import subprocess
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import AutoTokenizer  # noqa: E402

VOCAB = ["a", "b", "ab", "\u0120", "x", "y", "<", ">", "<|endoftext|>", "</s>"]
TEXTS = ["a<x>b", "a <x> b", "ab<y>ab", "b</s>a <|endoftext|> a", "<x><y>", "x<x>y <y>", " a  b</s> a"]
CONFIG = "tokenizer_config.json"


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def sentencepiece(pieces):
    """A BPE model of SentencePiece with a dummy prefix: the first three pieces are <unk>, <s> and </s>."""
    out = b""
    for i, text in enumerate(["<unk>", "<s>", "</s>"] + pieces):
        kind = {0: 2, 1: 3, 2: 3}.get(i, 1)
        out += field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", -float(i)) + b"\x18" + varint(kind))
    return out + field(2, b"\x18\x02") + field(3, b"\x18\x01\x20\x00\x28\x01")


def added(id, text, **flags):
    return {"id": id, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **flags}


def flags(text, **more):
    return {key: value for key, value in added(0, text, **more).items() if key != "id"}


def tokenizer_json(tokens=()):
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(tokens), "normalizer": None, "pre_tokenizer": level,
            "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "vocab": {text: id for id, text in enumerate(VOCAB)}, "merges": ["a b"]}}


def layouts():
    """Each vocabulary: name, files, keys of its configuration, and the first id that no token has."""
    pair = {"vocab.json": {text: id for id, text in enumerate(VOCAB)}, "merges.txt": "#version: 0.2\na b\n"}
    pieces = ["\u2581", "a", "b", "ab", "x", "y", "<", ">", "/", "s", "|", "e", "n", "d", "o", "f", "t"]
    yield "json", {"tokenizer.json": tokenizer_json()}, {"tokenizer_class": "PreTrainedTokenizerFast"}, len(VOCAB)
    yield "gpt2", pair, {"tokenizer_class": "GPT2Tokenizer"}, len(VOCAB)
    yield "qwen2", pair, {"tokenizer_class": "Qwen2Tokenizer"}, len(VOCAB)
    yield ("llama", {"tokenizer.model": sentencepiece(pieces)},
           {"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": True}, len(pieces) + 3)


def folders():
    for name, files, config, n in layouts():
        def folder(what, more=(), **beside):
            made = {CONFIG: {**config, **dict(more)}}
            made.update({key.replace("__", "."): value for key, value in beside.items()})
            return f"{name}-{what}", files, made
        both = {"<y>": n + 1, "<x>": n}
        yield folder("plain")
        yield folder("file", added_tokens__json=both)
        yield folder("file-named", {"pad_token": "<x>", "additional_special_tokens": ["<y>"]}, added_tokens__json=both)
        yield folder("file-map", added_tokens__json=both, special_tokens_map__json={"pad_token": {**flags("<x>", lstrip=True)}, "eos_token": "<y>"})
        for left, right, normal, single, special in itertools.product([False, True], repeat=5):
            entry = flags("<x>", lstrip=left, rstrip=right, normalized=normal, single_word=single, special=special)
            yield folder(f"decoder{left:d}{right:d}{normal:d}{single:d}{special:d}", {"added_tokens_decoder": {str(n): entry}})
        yield folder("decoder-vocab", {"added_tokens_decoder": {"2": flags("ab" if n == 10 else "</s>", rstrip=True)}, "extra_special_tokens": ["b"]})
        yield folder("decoder-map", {"added_tokens_decoder": {str(n): flags("<x>")}}, added_tokens__json={"<y>": n},
                     special_tokens_map__json={"pad_token": "a"})
        yield folder("around", {"add_bos_token": True, "add_eos_token": True, "bos_token": "<x>", "eos_token": "</s>"}, added_tokens__json={"<x>": n})
        yield folder("named", {"image_token": "b", "extra_special_tokens": {"boi_token": "a"}, "mask_token": "x"})
        if name != "json" and not name.startswith("llama"):
            yield folder("space", {"add_prefix_space": True})
            yield folder("around-class", {"add_bos_token": True, "add_eos_token": True})
            yield folder("around-null", {"add_bos_token": True, "add_eos_token": True, "bos_token": None, "eos_token": None})
        yield folder("gap", added_tokens__json={"<x>": n + 1})
        yield folder("two", added_tokens__json={"<x>": n, "<y>": n})
        yield folder("other", added_tokens__json={"<x>": 4})
        yield folder("moved", added_tokens__json={"a": n})
        for key in "eos_token", "pad_token", "image_token":
            yield folder("lost-" + key, {key: "<z>"})
        yield folder("lost-extra", {"additional_special_tokens": ["<z>"]})
        yield folder("lost-map", special_tokens_map__json={"eos_token": "<z>"})
        yield folder("split", {"split_special_tokens": True})
    own = tokenizer_json([added(10, "<x>"), added(11, "<y>", special=False)])
    own, config = {"tokenizer.json": own}, {"tokenizer_class": "PreTrainedTokenizerFast"}
    yield "own-flags", own, {CONFIG: {**config, "added_tokens_decoder": {"10": flags("<x>", lstrip=True)}}}
    yield "own-file", own, {"added_tokens.json": {"<x>": 10}, CONFIG: config}
    yield "own-moved", own, {"added_tokens.json": {"<x>": 11}, CONFIG: config}
    for kind in "gpt2", "qwen2", "qwen3", "starcoder2", "llama":
        yield "model-" + kind, list(layouts())[1][1], {"config.json": {"model_type": kind}}
    files = list(layouts())[3][1]
    for kind, type in itertools.product([None, "LlamaTokenizer", "LlamaTokenizerFast", "TokenizersBackend", "PreTrainedTokenizerFast",
                                         "GemmaTokenizer", "CodeLlamaTokenizer"], [None, "llama", "mistral", "gemma2", "phi3", "qwen2"]):
        lost = type == "qwen2" or (kind == "CodeLlamaTokenizer" and type not in ("mistral", "phi3"))
        settings = [{}]
        if type == "llama" and kind in (None, "LlamaTokenizer"):
            settings += [{"legacy": legacy, **more} for legacy in (None, True, False)
                         for more in ({}, {"add_bos_token": True}, {"add_prefix_space": False}, {"add_prefix_space": None})]
        for number, more in enumerate(settings):
            yield (f"pieces-{'class' if lost else 'read'}-{kind}-{type}-{number}", files,
                   {CONFIG: {**({"tokenizer_class": kind} if kind else {}), **more}, **({"config.json": {"model_type": type}} if type else {})})
    yield "code-class", own, {CONFIG: {"tokenizer_class": "MyTokenizer", "auto_map": {"AutoTokenizer": ["my.MyTokenizer", None]}}}
    yield "code-versions", own, {CONFIG: {"fast_tokenizer_files": ["tokenizer.4.0.0.json", "tokenizer.json"]}}
    yield "code-newer", own, {CONFIG: {"fast_tokenizer_files": ["tokenizer.9.0.0.json", "tokenizer.json"]}}


# For each kind of folder that must be refused, a word of the message.
REFUSED = {"gap": "first id without a token", "two": "is the id of the token <x>", "other": "is the id of the token", "moved": "the vocabulary gives it",
           "lost": "no file of the tokenizer defines it", "split": "split_special_tokens", "llama": "llama",
           "class": "Tokenizer", "versions": "transformers 5.24 reads instead of tokenizer.json"}


def goes_to_golden(name):
    """All folders but those of several flags at once."""
    return name.split("decoder")[-1].count("1") < 2 or name.endswith("11111")


def write(where, files):
    os.makedirs(where)
    for name, content in files.items():
        mode, data = ("wb", content) if isinstance(content, bytes) else ("w", content if isinstance(content, str) else json.dumps(content))
        with open(os.path.join(where, name), mode) as file:
            file.write(data)


def ours(program, where):
    """The tokens of each text, or None and the message of the refusal."""
    texts = b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in TEXTS)
    done = subprocess.run([program, where, "document"], input=texts, capture_output=True)
    if done.returncode:
        return None, done.stderr.decode().strip()
    out, at = [], 0
    for _ in TEXTS:
        count = struct.unpack_from("<I", done.stdout, at)[0]
        out.append(list(struct.unpack_from(f"<{count}i", done.stdout, at + 4)))
        at += 4 + 4 * count
        at += 4 + struct.unpack_from("<I", done.stdout, at)[0]
    return out, ""


def plain(files):
    return {key: base64.b64encode(value).decode() if isinstance(value, bytes) else value for key, value in files.items()}


def main():
    golden, vocabularies, wrong, seen = [], [], 0, 0
    with tempfile.TemporaryDirectory() as top:
        for name, files, beside in folders():
            where = os.path.join(top, name)
            write(where, {**files, **beside})
            mine, message = ours(sys.argv[1], where)
            refused = REFUSED.get(name.split("-")[1])
            theirs = None if refused else [AutoTokenizer.from_pretrained(where).encode(text) for text in TEXTS]
            seen += 1
            if mine != theirs or (refused and refused not in message):
                wrong += 1
                print(f"{name}:\n  ours   {mine or message}\n  theirs {theirs or 'to be refused with: ' + refused}")
            if plain(files) not in vocabularies:
                vocabularies.append(plain(files))
            if goes_to_golden(name):
                golden.append({"name": name, "vocabulary": vocabularies.index(plain(files)), "files": beside, "ids": theirs, "refused": refused})
    print(f"{seen} folders, {wrong} differ")
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as file:
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in golden)
            file.write('{"texts": %s,\n"vocabularies": %s,\n"folders": [\n%s]}\n' % (json.dumps(TEXTS), json.dumps(vocabularies), rows))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
