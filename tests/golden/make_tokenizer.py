"""make_tokenizer.py - writes tokenizer.golden: what Hugging Face's tokenizers makes of a text, for small tokenizers of each family.

Run it with the package tokenizers installed: python tests/golden/make_tokenizer.py. The file is JSON: a list of
{"name", "tokenizer": a whole tokenizer.json, "cases": [{"text", "ids"}]}; the texts are valid UTF-8.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "peers"))
import tokenizers_same as same  # noqa: E402

LEARN = """The quick brown fox jumps over the lazy dog, and the dog's friends didn't care: they'll wait. We've 12 or 345 of them.
def main(argument):
    return [x ** 2 for x in range(10) if x % 2]   # numbers

字词 字词，今天天气很好。 emoji 😀😀 and café, naïve words; words again and again, the end of the text.
""" * 3

TEXTS = ["", " ", "a", "Hello, world!", "the dog's  12345 friends\n\n\n  didn't\tcare\r\n\r\n", LEARN, "字词今天１２３🙂👩‍👩‍👧 e\u0301 \u212b \u1100\u1161 ½Ⅷ",
         "'S 'ſ 'LL I'M we'VE", "x\u180ey\u0085z\u2028\u3000 \u00a0\u200b", "<|endoftext|>the<|begin|> <|endoftext|>\n<|end", " " * 300 + "a" * 300 + "\n" * 300,
         "1" * 200 + "the" * 200, "\x01\x7f\u00ad\u0100\u0143\u0144", "word words <left> <right>  <both>\n word", "\u00c5\u00c5 A\u030aA\u030a    x"]


def main():
    tokenizers = {family: same.make(family, LEARN) for family in same.FAMILIES}
    tokenizers["special"] = same.special()
    out = [{"name": name, "tokenizer": json.loads(tokenizer.to_str()),
            "cases": [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS]} for name, tokenizer in tokenizers.items()]
    with open(os.path.join(os.path.dirname(__file__), "tokenizer.golden"), "w", encoding="utf-8") as file:
        json.dump(out, file, ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    main()
