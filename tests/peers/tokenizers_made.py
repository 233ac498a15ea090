"""tokenizers_made.py - small tokenizers of every construct of tokenizers 0.23 that cspeed honours, and of SentencePiece's.

Used by tokenizers_same.py and by tests/golden/make_tokenizer.py. Each is trained on a text with the package tokenizers or
sentencepiece.
"""
import io
import json
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

MARK = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


SIZE = 1500


def train(text, normalizer=None, words=None, specials=("<unk>", "<s>", "</s>"), **model):
    """A BPE of characters. Training sees words cut at spaces, so that no token holds a space but in front."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words] if words else [pre_tokenizers.Metaspace()])
    trainer = trainers.BpeTrainer(vocab_size=SIZE, special_tokens=list(specials), show_progress=False, limit_alphabet=600, **model)
    tokenizer.train_from_iterator(text.split("\n"), trainer)
    return json.loads(tokenizer.to_str())


def with_bytes(made):
    """Adds the tokens of bytes behind <unk>, <s> and </s>, as in Llama 2."""
    vocabulary = {token: id if id < 3 else id + 256 for token, id in made["model"]["vocab"].items()}
    vocabulary.update({token: 3 + byte for byte, token in enumerate(BYTES)})
    made["model"].update(vocab=vocabulary, byte_fallback=True, fuse_unk=True)
    return made


def assemble(made, normalizer=None, words=None, decoder=None, post=None, added=(), **model):
    made = json.loads(json.dumps(made))
    made["model"].update(model)
    made["pre_tokenizer"] = made["normalizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(made))
    if normalizer:
        tokenizer.normalizer = normalizer
    if words:
        tokenizer.pre_tokenizer = words
    if decoder:
        tokenizer.decoder = decoder
    if post:
        tokenizer.post_processor = post
    tokenizer.add_tokens(list(added))
    return tokenizer


BEGIN = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
LLAMA = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
GEMMA = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
PREPEND = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
ADDED = [AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True), AddedToken("word", single_word=True),
         AddedToken("<raw>", normalized=False), AddedToken("<ctl>", special=True), AddedToken("Dog", normalized=True)]


def published(text):
    """The sets of steps of model families: Llama 2 and TinyLlama, Mistral, Gemma, Phi-3."""
    base = with_bytes(train(text))
    yield "llama2", assemble(base, PREPEND, None, LLAMA, BEGIN, ADDED)
    yield "mistral", assemble(base, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), LLAMA, BEGIN)
    yield "gemma", assemble(base, normalizers.Replace(" ", MARK), pre_tokenizers.Split(" ", "merged_with_previous"), GEMMA, BEGIN)
    yield "phi3", assemble(base, PREPEND, None, LLAMA, None, [AddedToken("<|user|>", rstrip=True, special=True, normalized=False)])


def normalized(text, charsmap):
    base = with_bytes(train(text))
    kinds = {
        "nfc": normalizers.NFC(), "nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(), "nfkd": normalizers.NFKD(),
        "lowercase": normalizers.Lowercase(), "strip": normalizers.Strip(), "strip_left": normalizers.Strip(left=True, right=False),
        "strip_accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]), "nmt": normalizers.Nmt(),
        "bert": normalizers.BertNormalizer(), "bert_cased": normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False),
        "bytes": normalizers.ByteLevel(), "replace": normalizers.Replace(Regex(r"\s+"), " "), "replace_two": normalizers.Replace("aa", "b"),
        "prepend": normalizers.Sequence([normalizers.Prepend("xy"), normalizers.Lowercase()]),
        "precompiled": normalizers.Precompiled(charsmap),
    }
    for name, kind in kinds.items():
        yield "normalizer_" + name, assemble(base, kind, pre_tokenizers.Metaspace(prepend_scheme="never"), LLAMA, None, ADDED)


def cut(text):
    base = with_bytes(train(text, words=pre_tokenizers.Whitespace()))
    digits, punctuation, split = pre_tokenizers.Digits, pre_tokenizers.Punctuation, pre_tokenizers.Split
    kinds = {f"metaspace_{scheme}_{part}": pre_tokenizers.Metaspace(prepend_scheme=scheme, split=part)
             for scheme in ("always", "first", "never") for part in (True, False)}
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    kinds.update({"split_" + behavior: split(Regex(r"[aeiou]|\s"), behavior) for behavior in behaviors})
    kinds.update({"invert_" + behavior: split(Regex(r"\p{L}\p{L}"), behavior, invert=True) for behavior in behaviors})
    kinds.update({"punctuation_" + behavior: punctuation(behavior) for behavior in behaviors})
    kinds.update({
        "empty_matches": split(Regex(r"(?=\p{Lu})|,*"), "isolated"), "lines": split(Regex(r"^\s*|\s+$"), "isolated"),
        "literal": split("an", "merged_with_next"), "digits": digits(individual_digits=False), "each_digit": digits(individual_digits=True),
        "whitespace": pre_tokenizers.Whitespace(), "whitespace_split": pre_tokenizers.WhitespaceSplit(),
        "delimiter": pre_tokenizers.CharDelimiterSplit("e"), "bert": pre_tokenizers.BertPreTokenizer(), "fixed": pre_tokenizers.FixedLength(3),
        "sequence": pre_tokenizers.Sequence([digits(individual_digits=True), punctuation(), pre_tokenizers.Metaspace(prepend_scheme="first")]),
    })
    for name, kind in kinds.items():
        yield "words_" + name, assemble(base, None, kind, GEMMA, None, ADDED)


def modelled(text):
    plain, spaced = train(text), pre_tokenizers.Metaspace(prepend_scheme="always")
    whole = with_bytes(train(text))
    affixed = train(text, words=pre_tokenizers.Whitespace(), end_of_word_suffix="</w>")
    continued = train(text, words=pre_tokenizers.Whitespace(), continuing_subword_prefix="##")
    yield "model_unknown", assemble(plain, None, spaced, GEMMA)
    yield "model_fused", assemble(plain, None, spaced, GEMMA, fuse_unk=True)
    yield "model_dropped", assemble(plain, None, spaced, GEMMA, unk_token=None)
    yield "model_ignore_merges", assemble(whole, None, spaced, GEMMA, ignore_merges=True)
    some = json.loads(json.dumps(whole))
    some["model"]["vocab"].pop("<0xE5>")
    yield "model_some_bytes", assemble(some, PREPEND, None, GEMMA, fuse_unk=False)
    yield "model_suffix", assemble(affixed, None, pre_tokenizers.Whitespace(), decoders.BPEDecoder(), end_of_word_suffix="</w>")
    yield "model_prefix", assemble(continued, None, pre_tokenizers.Whitespace(), decoders.WordPiece(), continuing_subword_prefix="##")


def decoded(text):
    base, spaced = with_bytes(train(text)), pre_tokenizers.Metaspace()
    kinds = {
        "none": None, "metaspace": decoders.Metaspace(), "metaspace_never": decoders.Metaspace(prepend_scheme="never"),
        "fallback": decoders.ByteFallback(), "fuse": decoders.Fuse(), "strip": decoders.Strip(MARK, 1, 0), "ctc": decoders.CTC("a", MARK, True),
        "ctc_raw": decoders.CTC("e", "|", False), "wordpiece": decoders.WordPiece("an", True), "suffix": decoders.BPEDecoder("e"),
        "replace": decoders.Replace(Regex("[aeiou]+"), "-"), "bytes": decoders.ByteLevel(),
        "sequence": decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Strip("e", 2, 0), decoders.Fuse()]),
    }
    for name, kind in kinds.items():
        yield "decoder_" + name, assemble(base, None, spaced, kind, BEGIN)


def posted(text):
    base = with_bytes(train(text))
    template = processors.TemplateProcessing(single="<s> $A </s> </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    kinds = {"bert": processors.BertProcessing(("</s>", 2), ("<s>", 1)), "roberta": processors.RobertaProcessing(("</s>", 2), ("<unk>", 0)),
             "sequence": processors.Sequence([processors.ByteLevel(), template])}
    for name, kind in kinds.items():
        yield "post_" + name, assemble(base, PREPEND, None, LLAMA, kind)


# Code points and their replacements, in hexadecimal.
RULES = {"FF21": "41", "2460": "31", "A": "20", "9": "20", "41 30A": "C5", "41 30A 30A": "41", "BD": "31 2F 32", "200B": "", "3000": "20 20"}


def sentencepiece_models(text, size=1200):
    """(name, bytes of a tokenizer.model)"""
    import sentencepiece
    rules = tempfile.NamedTemporaryFile("w", suffix=".tsv")
    rules.write("".join(f"{source}\t{target}\n" for source, target in RULES.items()))
    rules.flush()
    common = dict(model_type="bpe", vocab_size=size, minloglevel=2, num_threads=1, hard_vocab_limit=False, character_coverage=0.999, max_sentence_length=100000)
    kinds = {
        "llama": dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
                      allow_whitespace_only_pieces=True),
        "gemma": dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False,
                      user_defined_symbols=[MARK * 2, MARK * 3, "\n", "\n\n", "<b>", "the", "é"]),
        "nmt_nfkc": dict(byte_fallback=True, control_symbols=["<2de>"], user_defined_symbols=["½", "a b"]),
        "nmt_nfkc_cf": dict(normalization_rule_name="nmt_nfkc_cf", unk_surface="?"),
        "suffix": dict(treat_whitespace_as_suffix=True, byte_fallback=True),
        "rules": dict(normalization_rule_tsv=rules.name, byte_fallback=True),
        "raw": dict(normalization_rule_name="nfkc", remove_extra_whitespaces=False, split_by_whitespace=False),
    }
    for name, kind in kinds.items():
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(line for line in text.split("\n") if line.strip()), model_writer=out,
                                                 **common, **kind)
        yield name, out.getvalue()


def charsmap_of(model):
    """The precompiled_charsmap of a tokenizer.model: field 2 of field 3."""
    def fields(data):
        at = 0
        while at < len(data):
            key, at = number(data, at)
            if key & 7 == 2:
                size, at = number(data, at)
                yield key >> 3, data[at:at + size]
                at += size
            elif key & 7 == 0:
                _, at = number(data, at)
            else:
                at += 8 if key & 7 == 1 else 4

    def number(data, at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at

    return next(inner for field, content in fields(model) if field == 3 for number_, inner in fields(content) if number_ == 2)
