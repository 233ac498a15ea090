"""make_tokenizer.py - writes tokenizer.golden and constructs.golden: what tokenizers and sentencepiece make of a text.

Run it with the packages tokenizers and sentencepiece installed: python tests/golden/make_tokenizer.py. The first file has small
tokenizers of each family with byte-level BPE, the second of other constructs. Each is JSON: a list of {"name", "tokenizer": a
whole tokenizer.json, or "model": a tokenizer.model in base64, "cases": [{"text", "ids", "decoded"}]}; the texts are valid UTF-8.
"""
import base64
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "peers"))
import tokenizers_made as made  # noqa: E402
import tokenizers_same as same  # noqa: E402

LEARN = """The quick brown fox jumps over the lazy dog, and the dog's friends didn't care: they'll wait. We've 12 or 345 of them.
def main(argument):
    return [x ** 2 for x in range(10) if x % 2]   # numbers

字词 字词，今天天气很好。 emoji 😀😀 and café, naïve words; words again and again, the end of the text.
""" * 3

TEXTS = ["", " ", "a", "Hello, world!", "the dog's  12345 friends\n\n\n  didn't\tcare\r\n\r\n", LEARN, "字词今天１２３🙂👩‍👩‍👧 e\u0301 \u212b \u1100\u1161 ½Ⅷ",
         "'S 'ſ 'LL I'M we'VE", "x\u180ey\u0085z\u2028\u3000 \u00a0\u200b", "<|endoftext|>the<|begin|> <|endoftext|>\n<|end", " " * 300 + "a" * 300 + "\n" * 300,
         "1" * 200 + "the" * 200, "\x01\x7f\u00ad\u0100\u0143\u0144", "word words <left> <right>  <both>\n word", "\u00c5\u00c5 A\u030aA\u030a    x"]


MORE = ["Hello <left>  dog word. words", "  a  b ", "<raw><right>  <ctl> Dog", "É\u0130ß ﬁ ½ Ａ", "\u2581x\u2581 \u2581", "<0x41><0xE5>", "12345,67", "\U0001f680\U0001f680 z\u200b"]
TAKEN = ["llama2", "mistral", "gemma", "normalizer_nfkd", "normalizer_bert", "normalizer_nmt", "normalizer_bytes", "normalizer_replace",
         "normalizer_precompiled", "words_split_contiguous", "words_invert_merged_with_next", "words_empty_matches", "words_sequence", "words_whitespace",
         "words_fixed", "model_fused", "model_dropped", "model_ignore_merges", "model_some_bytes", "model_suffix", "model_prefix", "decoder_none",
         "decoder_ctc", "decoder_wordpiece", "decoder_sequence", "post_roberta"]


def rows(texts, encode, decode):
    return [{"text": text, "ids": encode(text), "decoded": decode(encode(text))} for text in texts]


def constructs():
    import sentencepiece
    made.SIZE = 150
    models, out = list(made.sentencepiece_models(LEARN, 430)), []
    charsmap, texts = made.charsmap_of(dict(models)["rules"]), [text for text in TEXTS if len(text) < 200] + MORE
    for group in (made.published(LEARN), made.normalized(LEARN, charsmap), made.cut(LEARN), made.modelled(LEARN), made.decoded(LEARN), made.posted(LEARN)):
        for name, tokenizer in group:
            if name in TAKEN:
                content = json.loads(tokenizer.to_str())
                out.append({"name": name, "tokenizer": content, "cases": rows(texts, lambda text: tokenizer.encode(text).ids, tokenizer.decode)})
    for name, model in models:
        there = sentencepiece.SentencePieceProcessor(model_proto=model)
        if name in ("llama", "gemma", "rules"):
            out.append({"name": name, "model": base64.b64encode(model).decode(), "cases": rows(texts, there.encode, there.decode)})
    return out


def write(name, out):
    with open(os.path.join(os.path.dirname(__file__), name), "w", encoding="utf-8") as file:
        json.dump(out, file, ensure_ascii=True, separators=(",", ":"))


def main():
    tokenizers = {family: same.make(family, LEARN) for family in same.FAMILIES}
    tokenizers["special"] = same.special()
    out = [{"name": name, "tokenizer": json.loads(tokenizer.to_str()),
            "cases": [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS]} for name, tokenizer in tokenizers.items()]
    write("tokenizer.golden", out)
    write("constructs.golden", constructs())


if __name__ == "__main__":
    main()
