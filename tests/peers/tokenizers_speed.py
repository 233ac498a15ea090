"""tokenizers_speed.py TOKEN_LINES [MEGABYTES] - MB/s of encoding on one thread, beside tokenizers' and sentencepiece's.

Byte-level BPE (Llama 3's pattern) and BPE with byte fallback (Phi-3's steps, and a tokenizer.model), each of 8,000 tokens, on
English text and code of this machine: one text after another, of about 4 kB each, and the peers' batches too. Each has three
rounds, so that the caches of words are warm in the best one, which is printed. Needs the packages tokenizers and sentencepiece.
"""
import os
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sentencepiece  # noqa: E402
import tokenizers_made as made  # noqa: E402
import tokenizers_same as same  # noqa: E402

ROUNDS = 3


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(name, program, path, how, texts, peers):
    """peers: {name: function that encodes all texts}"""
    size = sum(len(text.encode()) for text in texts) / 1e6
    best = {"cspeed": same.ours(program, path, texts, how, ROUNDS)[1]}
    best.update({peer: min(seconds(run) for _ in range(ROUNDS)) for peer, run in peers.items()})
    print(f"{name}: " + ", ".join(f"{peer} {size / took:.1f} MB/s" + (f" ({took / best['cspeed']:.1f} x)" if peer != "cspeed" else "")
                                  for peer, took in best.items()), flush=True)


def main():
    program, size = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 4
    library = os.path.dirname(os.__file__)
    text = same.read(["/usr/share/common-licenses/*", "/usr/share/perl/*/pod/*.pod", library + "/*.py"], int(size * 1e6)).replace("\0", "")
    texts = [text[at:at + 4000] for at in range(0, len(text), 4000)]
    learn, made.SIZE = text[:1000000], 8000
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in (("byte-level", same.make("llama3", learn)), ("byte fallback", dict(made.published(learn))["phi3"])):
            path = folder + "/tokenizer.json"
            tokenizer.save(path)
            measure(name, program, path, "document", texts, {"tokenizers": lambda: [tokenizer.encode(text) for text in texts],
                                                             "its batch": lambda: tokenizer.encode_batch(texts)})
        model = next(model for name, model in made.sentencepiece_models(learn, 8000) if name == "llama")
        path = folder + "/tokenizer.model"
        with open(path, "wb") as file:
            file.write(model)
        there = sentencepiece.SentencePieceProcessor(model_proto=model)
        measure("tokenizer.model", program, path, "text", texts, {"sentencepiece": lambda: [there.encode(text) for text in texts],
                                                                  "its batch": lambda: there.encode(texts, num_threads=1)})


if __name__ == "__main__":
    main()
