"""tokenizers_same.py PACK [MEGABYTES] - the same tokens as Hugging Face's tokenizers, on mixed text, for each family of patterns.

Trains a vocabulary with each family's pre-tokenizer (GPT-2, Llama 3, Qwen 2, SmolLM, o200k's) on English, Chinese, code, emoji and
every code point there is, packs text of the same kinds with PACK, broken UTF-8 included, and compares each token. Then one
small text a special case: added tokens that strip, single words, unknown bytes. Needs the package tokenizers.
"""
import array
import glob
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTIONS + "?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTIONS + "?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


FAMILIES = {
    "gpt2": (pre_tokenizers.ByteLevel(add_prefix_space=False), None, False),
    "llama3": (split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL), None, True),
    "qwen2": (split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL), normalizers.NFC(), False),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False)]), None, False),
    "o200k": (split(O200K), None, True),
}


def read(patterns, limit):
    text = []
    for pattern in patterns:
        for name in sorted(glob.glob(pattern, recursive=True)):
            if sum(map(len, text)) > limit:
                break
            with open(name, encoding="utf-8", errors="ignore") as file:
                text.append(file.read(limit // 8))
    return "".join(text)[:limit]


def chinese(draw, count):
    """Words of two characters, the early ones of a fixed list more often, as in a language."""
    words = ["".join(chr(draw.randint(0x4E00, 0x9FA5)) for _ in range(draw.choice([1, 2, 2, 3]))) for _ in range(3000)]
    out = []
    while count > 0:
        word = words[min(int(draw.paretovariate(0.6)), len(words)) - 1] + draw.choice(["", "", "", "，", "。\n", "、", " ", "１２", "3"])
        out.append(word)
        count -= len(word)
    return "".join(out)


def emoji(draw, count):
    parts = ["👩‍👩‍👧", "🇩🇪", "👍🏽", "❤️", "é", "e\u0301", "n\u0303", "Å", "\u212b", "가", "\u1100\u1161", "नमस्ते", "สวัสดี", "שלום", "مرحبا",
             "ﬁ", "\u0344", "ǆ", "\u200d", "\ufeff", "\u00a0", "\u2028", "\u0085", "\u180e", "\u3000", "'ſ", "'S", "'LL", "½", "Ⅷ", "²",
             "  ", "\n\n", "\r\n", "\t", " \n ", "a", "Ab", "9", "<|endoftext|>", "<|end", "|>", "-", "…", "\x00", "\x1c"]
    return "".join(draw.choice(parts) + (chr(draw.randint(0x1F300, 0x1FAFF)) if draw.random() < 0.3 else "") for _ in range(count))


def corpus(megabytes):
    draw, size = random.Random(5), int(megabytes * 1e6)
    library = os.path.dirname(os.__file__)
    # Assigned ones: which are letters among newer ones, each library takes from its own edition of Unicode.
    every = "".join(chr(c) + draw.choice(["", "", " ", "a", "\n"]) for c in range(0x110000)
                    if unicodedata.category(chr(c)) not in ("Cn", "Cs") and (not unicodedata.combining(chr(c)) or (c < 0x1ABF and not 0x890 <= c < 0x8A0 and not 0x8C8 <= c < 0x8D3)))
    english = read(["/usr/share/games/fortunes/*", "/usr/share/common-licenses/*", "/usr/share/doc/**/README*"], size // 4)
    parts = [english.encode(), read([library + "/*.py"], size // 3).encode(), chinese(draw, size // 12).encode(),
             emoji(draw, size // 40).encode(), every.encode(), (" " * 5000 + "\n" * 5000 + "a" * 5000 + "1" * 5000 + "字" * 3000).encode()]
    broken = bytearray(english[: size // 20].encode())
    for _ in range(len(broken) // 20):
        broken[draw.randrange(len(broken))] = draw.randrange(256)
    parts += [bytes(broken), bytes(draw.randrange(256) for _ in range(size // 40))]
    return b"".join(parts)


def make(family, text):
    cutter, normalizer, whole = FAMILIES[family]
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole))
    tokenizer.pre_tokenizer, tokenizer.decoder = cutter, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=12000, special_tokens=["<|endoftext|>", "<|begin|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(text.split("\n\n"), trainer)
    if whole:
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single="<|begin|> $A", special_tokens=[("<|begin|>", tokenizer.token_to_id("<|begin|>"))])])
    return tokenizer


def special():
    """Added tokens of every kind."""
    tokenizer = make("qwen2", "some words and word, of no great use; twenty more words\n\n" * 3)
    tokenizer.add_tokens([AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True), AddedToken("<both>", lstrip=True, rstrip=True),
                          AddedToken("word", single_word=True), AddedToken("\u00c5\u00c5", normalized=True), AddedToken("<l", normalized=False),
                          AddedToken("<left> <right>", normalized=False), AddedToken("    ", normalized=True)])
    return tokenizer


def shard(folder):
    tokens = []
    for name in sorted(glob.glob(folder + "/train-*.bin")):
        with open(name, "rb") as file:
            data = file.read()
        width, (count,) = struct.unpack_from("<I", data, 12)[0], struct.unpack_from("<Q", data, 24)
        tokens += array.array("H" if width == 2 else "I", data[64:64 + count * width])
    return tokens


def compare(name, tokenizer, data, pack, folder):
    path, text = f"{folder}/{name}.json", f"{folder}/text"
    tokenizer.save(path)
    with open(text, "wb") as file:
        file.write(data)
    subprocess.run([pack, "--valid", "0", "--output", f"{folder}/{name}", "--tokenizer", path, text], check=True, stdout=subprocess.DEVNULL)
    ours = shard(f"{folder}/{name}")
    start = time.time()
    theirs = tokenizer.encode(data.decode(errors="replace")).ids + [tokenizer.token_to_id("<|endoftext|>")]
    seconds = time.time() - start
    if ours == theirs:
        print(f"{name}: {len(theirs)} tokens of {len(data)} bytes are the same ({len(data) / 1e6 / seconds:.1f} MB/s there)")
        return True
    first = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    show = lambda ids: [tokenizer.id_to_token(i) for i in ids[max(0, first - 3):first + 5]]
    print(f"{name}: DIFFERENT from token {first} on: {len(ours)} tokens here, {len(theirs)} there: {show(ours)} {show(theirs)}")
    return False


def main():
    pack, size = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 6
    text = corpus(size)
    learn = text[:len(text) * 3 // 4].decode(errors="replace")[: 4 * 10**6]
    with tempfile.TemporaryDirectory() as folder:
        same = [compare(family, make(family, learn), text, pack, folder) for family in FAMILIES]
        draw = random.Random(9)
        pieces = ["<left>", "<right>", "<both>", "word", "words", "sword", "A\u030aA\u030a", "ÅÅ", " ", "  ", "    ", "\n", "\u00a0", "é", ".", "<l", "1"]
        same.append(compare("special", special(), "".join(draw.choice(pieces) for _ in range(20000)).encode(), pack, folder))
    sys.exit(not all(same))


if __name__ == "__main__":
    main()
