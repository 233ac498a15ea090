"""tokenizers_same.py TOKEN_LINES [STRINGS [NAME]] - the same tokens and texts as tokenizers 0.23 and sentencepiece.

Trains a small tokenizer of every construct (tokenizers_made.py), and one with each family's byte-level pre-tokenizer (GPT-2,
Llama 3, Qwen 2, SmolLM, o200k's, Falcon), and compares each token, and the text that the tokens decode to, on STRINGS random texts
(2,000 if it is not given), on a text of many scripts, and for the families on a corpus with every code point. NAME picks the
tokenizers whose names have it. TOKEN_LINES is build/bin/token_lines. Needs the packages tokenizers and sentencepiece.
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

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tokenizers_made as made  # noqa: E402
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
    "falcon": (pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                                        pre_tokenizers.Digits(individual_digits=False),
                                        pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]), None, False),
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


def random_texts(count, draw):
    """Short texts of what is difficult. Single code points are those whose category has not changed since Unicode 3.2, because
    each library has its own edition of Unicode."""
    old = [chr(c) for c in range(0x10000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")
           and unicodedata.ucd_3_2_0.category(chr(c)) == unicodedata.category(chr(c))]
    parts = ["▁", " ", "  ", "\n", "\t", "\u00a0", "\u2003", "\u200b", "\u200d", "\ufeff", "\ufffd", "e\u0301", "é", "\u0130", "ß", "ﬁ", "½", "①",
             "Ａ", "ア", "ｱ", "字", "词", "각", "\u1100\u1161", "😀", "👩\u200d👩", "<0x41>", "<0xE5>", "<left>", " <left>", "<right> ", "word", "words",
             "<raw>", "<ctl>", "Dog", "dog", "<|user|>", "<b>", "the", "an", "aa", "quick ", " brown", "They're", "12", "3", ",", "...", "##", "</w>",
             "\x00", "\x1c", "\x7f", "\u0085", "नि", "ก", "ل", "a b"]
    return ["".join(draw.choice(parts) if draw.random() < 0.8 else draw.choice(old) for _ in range(draw.randrange(0, 14))) for _ in range(count)]


def ours(program, path, texts, how, rounds=1):
    """The tokens of each text, what they decode to, and the seconds that the fastest of the rounds took to encode them."""
    data = b"".join(struct.pack("<I", len(text)) + text for text in (text.encode() for text in texts))
    ran = subprocess.run([program, path, how, str(rounds)], input=data, capture_output=True)
    if ran.returncode:
        sys.exit(f"{path}: {ran.stderr.decode()}")
    out, at, rows = ran.stdout, 0, []
    for _ in texts:
        (count,) = struct.unpack_from("<I", out, at)
        ids = list(array.array("I", out[at + 4:at + 4 + 4 * count]))
        at += 4 + 4 * count
        (size,) = struct.unpack_from("<I", out, at)
        rows.append((ids, out[at + 4:at + 4 + size].decode()))
        at += 4 + size
    return rows, float(ran.stderr.split()[-1])


def differs(name, texts, mine_of, ids, decode):
    for text, (mine, said), theirs in zip(texts, mine_of, ids):
        if mine != theirs:
            place = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
            print(f"{name}: DIFFERENT tokens from {place} on of {text[:80]!r}: {mine[place:place + 8]} here, {theirs[place:place + 8]} there")
            return True
        if said != decode(theirs):
            print(f"{name}: DIFFERENT text of {text[:80]!r}: {said[:80]!r} here, {decode(theirs)[:80]!r} there")
            return True
    return False


def compare(name, tokenizer, texts, program, folder):
    path = f"{folder}/{name}.json"
    tokenizer.save(path)
    here, seconds = ours(program, path, texts, "document")
    start = time.time()
    ids = [tokenizer.encode(text).ids for text in texts]
    taken = time.time() - start
    if differs(name, texts, here, ids, tokenizer.decode):
        return False
    print(f"{name}: {len(texts)} texts, {sum(map(len, ids))} tokens are the same ({taken / max(seconds, 1e-9):.0f} x the speed)")
    return True


def compare_sentences(name, model, texts, program, folder):
    import sentencepiece
    there = sentencepiece.SentencePieceProcessor(model_proto=model)
    path = f"{folder}/{name}.model"
    with open(path, "wb") as file:
        file.write(model)
    here, seconds = ours(program, path, texts, "text")
    start = time.time()
    ids = [there.encode(text) for text in texts]
    taken = time.time() - start
    if differs("sentencepiece " + name, texts, here, ids, there.decode):
        return False
    print(f"sentencepiece {name}: {len(texts)} texts, {sum(map(len, ids))} tokens are the same ({taken / max(seconds, 1e-9):.1f} x the speed)")
    return True


def learnt():
    """A small text of many scripts, from which the tokenizers of single constructs are trained."""
    draw = random.Random(3)
    return read([os.path.dirname(os.path.abspath(__file__)) + "/../../docs/*.md"], 200000) + chinese(draw, 3000) + emoji(draw, 1500).replace("\0", "") + "\n"


def main():
    program, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    only, size = sys.argv[3] if len(sys.argv) > 3 else "", 2
    text, same, draw = learnt(), [], random.Random(9)
    texts = random_texts(count, draw) + [text[:20000]]
    plain = [text.replace("<|", "< |") for text in texts if "<s>" not in text]
    models = list(made.sentencepiece_models(text))
    charsmap = made.charsmap_of(dict(models)["nmt_nfkc"])
    with tempfile.TemporaryDirectory() as folder:
        for group in (made.published(text), made.normalized(text, charsmap), made.cut(text), made.modelled(text), made.decoded(text),
                      made.posted(text)):
            same += [compare(name, tokenizer, texts, program, folder) for name, tokenizer in group if only in name]
        same += [compare_sentences(name, model, plain, program, folder) for name, model in models if only in "sentencepiece " + name]
        families = [family for family in FAMILIES if only in family]
        if families:
            whole = corpus(size)
            learn = whole[:len(whole) * 3 // 4].decode(errors="replace")
            same += [compare(family, make(family, learn), texts + [whole.decode(errors="replace")], program, folder) for family in families]
        if not only:
            pieces = ["<left>", "<right>", "<both>", "word", "words", "sword", "A\u030aA\u030a", "ÅÅ", " ", "  ", "    ", "\n", "\u00a0", "é", ".", "<l", "1"]
            same.append(compare("special", special(), ["".join(draw.choice(pieces) for _ in range(20000))], program, folder))
    print(f"{sum(same)} of {len(same)} tokenizers are the same")
    sys.exit(not all(same))


if __name__ == "__main__":
    main()
