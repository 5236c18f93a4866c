"""Comparisons of what runs with the reference, as `.ci/acceptance_run` makes them: peer_run.py COMMAND --help says what each wants."""

import argparse
import json
import math
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
from gguf import GGUFReader
from peer import REAL, command_of, log_probabilities, ours, reference

# Largest distance of the reference's 20 best log probabilities behind a long text.
LONG_LIMIT = 0.1


def ids_of(args, model, n):
    """The ids of a text, from its start again where it is too short."""
    text = pathlib.Path(args.text).read_text()
    ids = json.loads(ours(args, "tokenize", "-m", model, "--ids", "--no-escape", "-p", text))
    more = ids[1:]
    while len(ids) < n:
        ids += more
    return ids[:n]


def has_windows(model):
    return any(key.endswith(".attention.sliding_window") for key in GGUFReader(model).fields)


def in_own_process(command, *words):
    """A command of this file: the reference keeps its memory and its threads for as long as a process lives."""
    shown = subprocess.check_output(
        [sys.executable, __file__, command, *map(str, words)], text=True, stderr=subprocess.DEVNULL
    )
    return json.loads(shown.splitlines()[-1])


# Embeddings.


def vectors(args):
    """The reference's vectors of texts."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.n_ctx, params.n_parallel, params.embedding, params.n_gpu_layers = 512, 1, True, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(params)
    module = reference(args)
    out = []
    for text in json.loads(pathlib.Path(args.texts).read_text()):
        answer = module.post(server, "/embedding", {"content": text})
        (vector,) = (answer[0] if isinstance(answer, list) else answer)["embedding"]
        out.append(vector)
    print(json.dumps(out))


def embeddings(args):
    """Cosines of our vectors and the reference's, of a checkpoint that is converted first."""
    scratch = pathlib.Path(args.scratch)
    smallest = 1.0
    for kind in ("f32", "f16"):
        model = scratch / f"encoder-{kind}.gguf"
        ours(args, "convert", args.folder, "--outfile", model, "--outtype", kind, "-f")
        theirs = in_own_process("vectors", "--reference", args.reference, model, args.texts)
        cosines = []
        for text, other in zip(json.loads(pathlib.Path(args.texts).read_text()), theirs):
            words = ["embed", "-m", model, "--no-escape", "-p", text, "--embd-separator", "\x1f", "--embd-output-format", "array"]
            (vector,) = json.loads(ours(args, *words))
            cosines.append(float(np.dot(vector, other) / np.linalg.norm(vector) / np.linalg.norm(other)))
        print(f"{kind}: {len(cosines)} texts, smallest cosine {min(cosines):.8f}, median {statistics.median(cosines):.8f}")
        smallest = min(smallest, *cosines)
    # The reference takes GELU from a table of 16 bits.
    sys.exit(smallest < 0.99999)


# Long contexts.


def best(args):
    """The reference's 20 best log probabilities behind ids. The threads change no bits of what several tokens compute at once."""
    module = reference(args)
    ids = json.loads(pathlib.Path(args.ids).read_text())
    n_ctx = (len(ids) + 64 + 255) // 256 * 256
    server = module.start(argparse.Namespace(model=args.model, ctx=n_ctx, threads=1))
    body = {"prompt": ids, "n_predict": 1, "n_probs": 20, "temperature": 0, "cache_prompt": False}
    # Minutes, where other work runs beside it.
    import urllib.request

    request = urllib.request.Request(
        server.listening_address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=7200) as response:
        answer = json.loads(response.read())
    (step,) = answer["completion_probabilities"]
    print(json.dumps([[t["id"], t["logprob"]] for t in step["top_logprobs"]]))


def parts_of_prompt(n, has_windows):
    """As the reference's server cuts a prompt: in parts of 512, and where it keeps checkpoints of windows, 516 and 4 tokens
    before the end too."""
    cuts = [n - 516, n - 4, n] if has_windows else [n]
    lengths, start = [], 0
    for cut in (cut for cut in cuts if cut > 0):
        n_parts, rest = divmod(cut - start, 512)
        lengths += [512] * n_parts + [rest] * (rest > 0)
        start = cut
    return lengths


def long(args):
    """8,000 tokens: the reference's 20 best log probabilities at the last one beside ours, and each beside exact arithmetic."""
    scratch = pathlib.Path(args.scratch)
    misses = False
    for stem in REAL:
        model = f"{args.models}/{stem}.gguf"
        ids = ids_of(args, model, args.tokens)
        (scratch / "ids.json").write_text(json.dumps(ids))
        theirs = in_own_process("best", "--reference", args.reference, model, scratch / "ids.json")
        batches = ["--batches", ",".join(map(str, parts_of_prompt(len(ids), has_windows(model))))]
        exact = scratch / f"{stem}-exact.gguf"
        ours(args, "quantize", "--force", "--allow-requantize", model, exact, "F32")
        found = {
            "gristmill": log_probabilities(args, model, ids, *batches)[-1],
            "--arithmetic llama.cpp": log_probabilities(args, model, ids, *batches, "--arithmetic", "llama.cpp")[-1],
            "exact": log_probabilities(args, exact, ids, *batches)[-1],
        }
        exact.unlink()
        apart = {name: max(abs(values[k] - v) for k, v in theirs) for name, values in found.items()}
        own = max(abs(found["gristmill"][k] - found["exact"][k]) for k, _ in theirs)
        print(
            f"{stem}, {len(ids)} tokens, {len(theirs)} best: largest distance from the reference"
            f" {apart['--arithmetic llama.cpp']:.6f} in its arithmetic, {apart['gristmill']:.3f} in ours;"
            f" from exact: the reference {apart['exact']:.3f}, ours {own:.3f}",
            flush=True,
        )
        misses |= bool(min(apart["--arithmetic llama.cpp"], apart["gristmill"]) > LONG_LIMIT)
    sys.exit(misses)


# Speed and memory at depth.


def text_of(args, model, n):
    """A text of about so many tokens, in a file."""
    text = pathlib.Path(args.text).read_text()
    n_have = len(json.loads(ours(args, "tokenize", "-m", model, "--ids", "--no-escape", "-p", text)))
    whole = text * math.ceil(n / n_have)
    path = pathlib.Path(args.scratch) / "deep.txt"
    path.write_text(whole[: int(len(text) * n / n_have)])
    return path


def used_by_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def deep(args):
    """The reference, behind a prompt: tokens per second of prompt and answer, its length, and seconds of all processors."""
    module = reference(args)
    server = module.start(argparse.Namespace(model=args.model, ctx=args.ctx, threads=args.threads))
    module.complete(server, prompt=[5, 6, 7, 8], n_predict=2, temperature=0)
    start = time.process_time()
    body = {"temperature": 0, "ignore_eos": True, "cache_prompt": False, "prompt": pathlib.Path(args.file).read_text()}
    timings = module.complete(server, n_predict=args.answer, **body)["timings"]
    rates = [timings[key] for key in ("prompt_per_second", "predicted_per_second")]
    print(json.dumps([*rates, timings["prompt_n"], time.process_time() - start]))


def ours_deep(args, model, file, n_ctx):
    """The same of ours, and the largest resident size in MiB."""
    words = ["run", "-m", model, "-f", file, "-n", args.answer, "--temp", 0, "-no-cnv", "-t", args.threads]
    words += ["--no-display-prompt", "--ignore-eos", "-c", n_ctx]
    before = used_by_children()
    done = subprocess.run([args.gristmill, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    told = re.search(r"Prompt: ([0-9.]+) t/s \| Generation: ([0-9.]+) t/s \| ([0-9]+) \+", done.stderr)
    if done.returncode or not told:
        raise SystemExit(done.stderr)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return [float(told[1]), float(told[2]), int(told[3]), used_by_children() - before, peak, done.stderr]


def depth(args):
    """Speed behind long prompts, in turns with the reference: medians, and seconds of all processors."""
    slower = False
    for stem in args.stems.split(","):
        model = f"{args.models}/{stem}.gguf"
        for n in map(int, args.depths.split(",")):
            file, n_ctx = text_of(args, model, n), n + 512
            runs = {"gristmill": [], "reference": []}
            for _ in range(args.rounds):
                runs["gristmill"].append(ours_deep(args, model, file, n_ctx)[:4])
                words = ["--reference", args.reference, "--threads", args.threads, "--answer", args.answer, "--ctx", n_ctx]
                runs["reference"].append(in_own_process("deep", *words, model, file))
            if runs["gristmill"][0][2] != runs["reference"][0][2]:
                raise SystemExit(f"prompts of {runs['gristmill'][0][2]} and {runs['reference'][0][2]} tokens")
            a, b = ([statistics.median(run[i] for run in runs[name]) for i in range(4)] for name in runs)
            print(
                f"{stem}, {a[2]:.0f} tokens: prompt {a[0]:.0f} beside {b[0]:.0f} t/s ({a[0] / b[0]:.2f} times),"
                f" answer {a[1]:.1f} beside {b[1]:.1f} ({a[1] / b[1]:.2f} times),"
                f" processor {a[3]:.1f} beside {b[3]:.1f} s ({b[3] / a[3]:.2f} times)",
                flush=True,
            )
            slower |= a[0] < b[0] or a[1] < b[1]
    sys.exit(slower)


def deep_memory(args):
    """The largest resident size behind 32,000 tokens, beside the file and the KV cache that loading tells of."""
    model = f"{args.models}/{REAL[1]}.gguf"
    n_ctx = args.tokens + 512
    *_, n, _, peak, told = ours_deep(args, model, text_of(args, model, args.tokens), n_ctx)
    print("\n".join(line for line in told.splitlines() if "MiB" in line))
    weights = os.path.getsize(model) / 2**20
    print(f"{n} tokens: at most {peak:.0f} MiB resident, of which the mapped file is {weights:.0f} MiB")
    sys.exit(peak > weights + 384)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    command = command_of(parser.add_subparsers(required=True))
    command(vectors, "model", "texts")
    command(embeddings, "folder", "texts")
    command(best, "model", "ids")
    sub = command(long, "text")
    sub.add_argument("--tokens", type=int, default=8000)
    for run, positional in ((deep, ("model", "file")), (depth, ("text",)), (deep_memory, ("text",))):
        sub = command(run, *positional)
        sub.add_argument("--threads", type=int, default=2)
        sub.add_argument("--answer", type=int, default=32)
        sub.add_argument("--ctx", type=int, default=0)
        sub.add_argument("--tokens", type=int, default=32000)
        sub.add_argument("--stems", default=",".join(REAL))
        sub.add_argument("--depths", default="4096,8000")
        sub.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
