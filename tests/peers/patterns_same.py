"""patterns_same.py TOKEN_LINES [COUNT] - random patterns of Oniguruma's syntax cut texts as tokenizers cuts them.

Makes COUNT random patterns (1,000 if it is not given) of the constructs that engine/text/onig.c translates, and beside them some
published ones, and compares the pieces of random texts. Each piece begins with a mark, so that the tokens show where it begins. A
pattern that tokenizers refuses is left out; one that only we refuse is counted by its message. Each single class is also compared
on all code points of Python's edition of Unicode; four differ where the
libraries' editions do. Needs the package tokenizers.
"""
import collections
import os
import random
import re
import sys
import tempfile
import unicodedata

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tokenizers_same as same  # noqa: E402
from tokenizers import Regex, Tokenizer, models, pre_tokenizers  # noqa: E402

MARK = "\u2581"
LETTERS = "abcxAZ09 _-'.\n\t\u00e9\u4e2d\u3042\u0416\u00bc\u0301\U0001f600"
CLASSES = [r"\w", r"\W", r"[\w]", r"[\W]", r"[^\w]", "[[:punct:]]", r"\d", r"\D", r"\s", r"\S", r"\h", r"\H", r"\v", r"[[:alpha:]]", r"[[:digit:]]", r"[[:alnum:]]", r"[[:upper:]]",
           r"[[:lower:]]", r"[[:space:]]", r"[[:word:]]", r"[[:xdigit:]]", r"[[:cntrl:]]", r"[[:blank:]]", r"[[:^alpha:]]", r"[[:ascii:]]",
           r"\p{Han}", r"\p{^Han}", r"\P{Latin}", r"\p{Hiragana}", r"\p{Cyrillic}", r"\p{L}", r"\p{M}", r"[\p{L}&&[^\p{Han}]]"]
PUBLISHED = {
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|"
            r"'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "bloom": r" ?[^(\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",
    "word": r"\b\w+\b|\W",
}


def random_class(draw, depth=0):
    parts = []
    for _ in range(draw.randint(1, 3)):
        kind = draw.randint(0, 6 if depth < 2 else 4)
        if kind < 2:
            parts.append(draw.choice("abcxAZ09_.\u00e9\u4e2d"))
        elif kind == 2:
            parts.append(draw.choice(["a-c", "A-Z", "0-9", "\u4e00-\u9fff"]))
        elif kind == 3:
            parts.append(draw.choice([r"\w", r"\W", r"\s", r"\S", r"\d", r"\h", r"\p{L}", r"\p{N}", r"\P{L}", r"\p{Han}", "[:alpha:]", "[:^digit:]"]))
        elif kind == 4:
            parts.append(draw.choice(["a", "-a", r"\-", r"\]", r"\u0416", r"\x{e9}"]))
        elif kind == 5:
            parts.append(random_class(draw, depth + 1))
        else:
            parts.append("b&&" + random_class(draw, depth + 1))
    return "[" + draw.choice(["", "", "^"]) + "".join(parts) + "]"


def random_pattern(draw, depth=0):
    out = []
    for _ in range(draw.randint(1, 4)):
        kind = draw.randint(0, 9)
        if kind < 3:
            atom = draw.choice(["a", "b", "c", " ", "-", r"\.", "\u4e2d", ".", "9"])
        elif kind < 5:
            atom = random_class(draw)
        elif kind < 7:
            atom = draw.choice([r"\w", r"\W", r"\s", r"\S", r"\d", r"\h", r"\p{L}", r"\p{N}", r"\p{Lu}", r"[\r\n]"])
        elif kind == 7:
            out.append(draw.choice([r"\b", r"\B", "^", "$", r"\A", r"\z", r"(?=\w)", "(?!a)", "(?<=a)", r"(?<!\s)"]))
            continue
        elif depth < 2:
            atom = draw.choice(["(", "(?:", "(?i:", "(?m:", "(?>", "(?<n>"]) + random_pattern(draw, depth + 1) + ")"
        else:
            continue
        out.append(atom + draw.choice(["", "", "", "?", "*", "+", "++", "*+", "?+", "+?", "{2}", "{1,3}", "{1,3}+", "{2}?", "{1,2}?", "{,2}", "{2,}+"]))
    if depth and draw.random() < 0.1:
        out.insert(draw.randint(0, len(out)), "(?i)")
    return "".join(out) + ("|" + random_pattern(draw, depth + 1) if draw.random() < 0.3 and depth < 3 else "")


def tokenizer(pattern, characters):
    vocab = {character: i for i, character in enumerate(sorted(set(characters) | {MARK, "?"}))}
    made = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                                  pre_tokenizers.Metaspace(MARK, "always", split=False)])
    return made


def compare(name, pattern, texts, program, folder, refusals):
    """Returns False if tokens differ. A refusal by one of the two is no difference."""
    try:
        there = tokenizer(pattern, "".join(texts))
    except Exception:
        refusals["by tokenizers"] += 1
        return True
    path = os.path.join(folder, "tokenizer.json")
    there.save(path)
    try:
        mine = [ids for ids, _ in same.ours(program, path, texts, "text")[0]]
    except SystemExit as problem:
        refusals[re.sub(r"(?s) in the pattern .*|.*the pattern .* at character \d+: ", "", str(problem).split("[0]: ")[-1])[-100:]] += 1
        return True
    for text, ids, one in zip(texts, mine, there.encode_batch(texts, add_special_tokens=False)):
        if list(ids) != one.ids:
            pieces = "".join(one.tokens).split(MARK)
            print(f"{name}: {pattern!r} cuts {text!r}\n  tokenizers: {pieces}\n  ours: {''.join(there.id_to_token(i) for i in ids).split(MARK)}")
            return False
    return True


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    draw = random.Random(7)
    texts = ["".join(draw.choice(LETTERS) for _ in range(draw.randint(1, 30))) for _ in range(60)]
    known = [chr(point) for point in range(1, 0x32000) if unicodedata.category(chr(point)) not in ("Cn", "Cs")]
    points = ["".join(known[start:start + 64]) for start in range(0, len(known), 64)]
    wrong, refusals = 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for pattern in CLASSES:
            wrong += not compare("class", pattern, points, program, folder, refusals)
        for name, pattern in PUBLISHED.items():
            wrong += not compare(name, pattern, texts, program, folder, refusals)
        for _ in range(count):
            wrong += not compare("random", random_pattern(draw), texts, program, folder, refusals)
    print(f"{len(CLASSES) + len(PUBLISHED) + count} patterns, {wrong} differ; refused: {dict(refusals)}")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
