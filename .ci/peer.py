"""Comparisons with other programs that `.ci/acceptance` makes: peer.py COMMAND --help says what each wants.

Wants numpy, the package gguf and, for what runs the reference, xllamacpp; none is needed to build or test the project.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import time

import numpy as np
from gguf import GGUFReader, GGUFValueType as Kind, GGUFWriter, GGMLQuantizationType as Type

ROOT = pathlib.Path(__file__).resolve().parent.parent
REAL = ("SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m")


def ours(args, *words, **options):
    """Runs the binary under test; its standard output."""
    done = subprocess.run([args.gristmill, *map(str, words)], capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr}")
    return done.stdout


def reference(args):
    sys.path.insert(0, str(args.reference))
    import reference as module

    return module


# A synthetic model.


def synthetic_header(args):
    """The header of a llama with the vocabulary of another file, written; the writer, and the shapes of the tensors."""
    embedding, hidden, keys = 2048, 5632, 512
    sizes = {
        "llama.block_count": args.layers,
        "llama.embedding_length": embedding,
        "llama.feed_forward_length": hidden,
        "llama.attention.head_count": 32,
        "llama.attention.head_count_kv": 8,
        "llama.rope.dimension_count": 64,
        "general.file_type": 1 if args.type == "f16" else 32,
    }
    source = GGUFReader(args.vocabulary)
    writer = GGUFWriter(args.out, "llama")
    for key, field in source.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.architecture", "general.quantization_version"):
            element = field.types[1] if field.types[0] == Kind.ARRAY else None
            writer.add_key_value(key, sizes.get(key, field.contents()), field.types[0], sub_type=element)
    shapes = {"token_embd.weight": (49152, embedding), "output_norm.weight": (embedding,)}
    for layer in range(args.layers):
        for name, shape in (
            ("attn_norm", (embedding,)),
            ("attn_q", (embedding, embedding)),
            ("attn_k", (keys, embedding)),
            ("attn_v", (keys, embedding)),
            ("attn_output", (embedding, embedding)),
            ("ffn_norm", (embedding,)),
            ("ffn_gate", (hidden, embedding)),
            ("ffn_up", (hidden, embedding)),
            ("ffn_down", (embedding, hidden)),
        ):
            shapes[f"blk.{layer}.{name}.weight"] = shape
    for name, shape in shapes.items():
        if len(shape) == 1:
            writer.add_tensor_info(name, shape, np.dtype(np.float32), 4 * shape[0])
        elif args.type == "f16":
            writer.add_tensor_info(name, shape, np.dtype(np.float16), 2 * shape[0] * shape[1])
        else:
            n_bytes = 2 * shape[0] * shape[1]
            writer.add_tensor_info(name, (shape[0], 2 * shape[1]), np.dtype(np.uint8), n_bytes, raw_dtype=Type.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    return writer, shapes


def synthetic(args):
    """A llama with random weights and the vocabulary of another file, and an importance matrix in both forms."""
    writer, shapes = synthetic_header(args)
    random = np.random.default_rng(7)
    for shape in shapes.values():
        if len(shape) == 1:
            writer.write_tensor_data(np.ones(shape, np.float32))
            continue
        weights = random.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        weights *= 0.5 + random.random((1, shape[1]), dtype=np.float32)
        if args.type == "f16":
            writer.write_tensor_data(weights.astype(np.float16))
        else:
            bits = weights.view(np.uint32)
            writer.write_tensor_data(((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(np.uint8))
    writer.close()
    names = [name for name, shape in shapes.items() if len(shape) == 2 and name != "token_embd.weight"]
    sums = {name: np.exp(random.standard_normal((1, shapes[name][1]))).astype(np.float32) * 5120 for name in names}
    importance(f"{args.out}.imatrix.gguf", {name: (sums[name], 5120) for name in names})
    with open(f"{args.out}.imatrix.dat", "wb") as file:
        file.write(struct.pack("<i", len(names)))
        for name in names:
            values = (sums[name].ravel() / 5120 * 10).astype("<f4")
            file.write(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 10, len(values)))
            file.write(values.tobytes())
        file.write(struct.pack("<ii", 10, 4) + b"even")


def importance(path, sums):
    """An importance matrix: for each tensor its sums of squares and how many were added."""
    writer = GGUFWriter(path, "imatrix")
    writer.kv_data[0].clear()
    writer.add_key_value("general.type", "imatrix", Kind.STRING)
    writer.add_key_value("imatrix.datasets", ["even"], Kind.ARRAY, sub_type=Kind.STRING)
    writer.add_key_value("imatrix.chunk_count", 10, Kind.UINT32)
    writer.add_key_value("imatrix.chunk_size", 512, Kind.UINT32)
    for name, (values, count) in sums.items():
        writer.add_tensor(f"{name}.in_sum2", values)
        writer.add_tensor(f"{name}.counts", np.full((len(values), 1), count, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# What `inspect` reads, beside the package gguf.

READ = """
import sys, time
from gguf import GGUFReader
start = time.perf_counter()
file = GGUFReader(sys.argv[1])
fields = {key: field.contents() for key, field in file.fields.items()}
tensors = [(t.name, t.tensor_type, t.shape.tolist(), t.data_offset) for t in file.tensors]
print(time.perf_counter() - start)
"""

# A process that begins as a copy of a large one counts that one's memory; so a small one starts it.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def same(a, b):
    if isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, float):
        a = float(a)
        return np.float32(a) == np.float32(b) or a == b or math.isnan(a) and math.isnan(b)
    return a == b


def inspect(args):
    """Keys, types, values, tensors and offsets; time in turns; peak memory."""
    n_bad = 0
    for path in args.files:
        shown = json.loads(ours(args, "inspect", "--json", "--full", path))
        file = GGUFReader(path)
        bad = []
        keys = [key for key in file.fields if not key.startswith("GGUF.")]
        if keys != list(shown["metadata"]):
            bad.append("keys")
        for key in keys:
            field, entry = file.fields[key], shown["metadata"][key]
            value = entry["value"]
            equal = entry["type"] == field.types[0].name
            if field.types[0] == Kind.ARRAY:
                equal &= value["element_type"] == field.types[1].value
                value = value["items"]
            if not (equal and same(value, field.contents())):
                bad.append(key)
        if len(shown["tensors"]) != len(file.tensors):
            bad.append("number of tensors")
        for a, b in zip(shown["tensors"], file.tensors):
            a = (a["name"], a["ggml_type_name"].upper(), a["dimensions"], a["absolute_offset"])
            if a != (b.name, b.tensor_type.name.upper(), [int(n) for n in b.shape], int(b.data_offset)):
                bad.append(b.name)
        mine, theirs, peaks = [], [], []
        for _ in range(5):
            start = time.perf_counter()
            ours(args, "inspect", "--json", "--full", path)
            mine.append(time.perf_counter() - start)
            words = [sys.executable, "-c", PEAK, args.gristmill, "inspect", "--json", "--full", path]
            peaks.append(int(subprocess.check_output(words)) / 1024)
            theirs.append(float(subprocess.check_output([sys.executable, "-c", READ, path])))
        a, b = statistics.median(mine), statistics.median(theirs)
        metadata = shown["directory_end"] / 2**20
        slow, large = b < 20 * a, max(peaks) > metadata + 32
        print(
            f"{os.path.basename(path)}: {len(keys) + len(file.tensors)} compared, {len(bad)} differ {bad[:3]};"
            f" {a * 1e3:.1f} ms beside {b * 1e3:.0f} ms ({b / a:.0f} times as fast);"
            f" peak {max(peaks):.1f} MiB with {metadata:.1f} MiB of metadata",
            flush=True,
        )
        n_bad += len(bad) + slow + large
    sys.exit(n_bad > 0)


# Greedy ids and log probabilities beside the reference.


def step_by_step(args):
    """Greedy ids of the reference with its five best log probabilities.

    One id per request, since of a part of a character an answer gives no values. Where the model has windows, all in one
    request: for each further one the server goes back to a checkpoint and computes the end of the text again in batches.
    Behind short texts the number of threads changes no bits, and one never waits for another.
    """
    module = reference(args)
    server = module.start(argparse.Namespace(model=args.model, ctx=2048, threads=1))
    ids, out = json.loads(args.ids), []
    n_predict = 48 if args.at_once else 1
    for _ in range(48 // n_predict):
        body = {"prompt": ids, "n_predict": n_predict, "n_probs": 5, "return_tokens": True, "temperature": 0}
        answer = module.post(server, "/completion", body | {"cache_prompt": True})
        tokens, best = answer["tokens"], answer.get("completion_probabilities") or [{"top_logprobs": []}]
        if args.at_once and [step["id"] for step in best] != tokens:
            raise SystemExit("the reference gives no values of a part of a character")
        ids = ids + tokens
        out += [[id, [[t["id"], t["logprob"]] for t in step["top_logprobs"]]] for id, step in zip(tokens, best)]
        if not tokens or answer.get("stop_type") == "eos":
            break
    print(json.dumps(out))


def log_probabilities(args, model, ids, *more):
    path = pathlib.Path(args.scratch) / f"{os.getpid()}.npy"
    ours(args, "logits", "-m", model, "--tokens", ",".join(map(str, ids)), "-o", path, "-f", "-t", 2, *more)
    logits = np.load(path).astype(np.float64)
    path.unlink()
    logits -= logits.max(1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


class Followed:
    """How far an arithmetic of ours is from the reference, over all prompts."""

    def __init__(self, name):
        self.name, self.n, self.n_parted, self.n_early, self.widest, self.largest = name, 0, 0, 0, 0.0, 0.0

    def compare(self, steps, found):
        """Where our best id is another, the reference's own gap there, and the largest distance of its five best values."""
        ids = [step[0] for step in steps]
        worst = max(abs(found[i, k] - v) for i, (_, best) in enumerate(steps) for k, v in best)
        other = next((i for i, id in enumerate(ids) if found[i].argmax() != id), None)
        parted = "never"
        self.n += 1
        if other is not None:
            self.n_parted += 1
            self.n_early += other < 24
            values = sorted((v for _, v in steps[other][1]), reverse=True)
            # Of a part of a character the reference gives one value only.
            gap = values[0] - values[1] if len(values) > 1 else None
            self.widest = max(self.widest, gap or 0)
            parted = f"at {other}, gap " + ("not told" if gap is None else f"{gap:.3f}")
        self.largest = max(self.largest, worst)
        return f"{self.name} parts {parted}, values {worst:.6f} apart"

    def __str__(self):
        return (
            f"{self.name}: {self.n_parted} of {self.n} part, {self.n_early} before id 24 ({self.n // 5} wanted),"
            f" gaps up to {self.widest:.3f} (0.2), values up to {self.largest:.6f} (0.3)"
        )

    def misses(self):
        return bool(self.n_early > self.n // 5 or self.widest >= 0.2 or self.largest > 0.3)


def greedy(args):
    """Prompts along the reference's ids, in our arithmetic and in that which follows the reference's."""
    own, followed = Followed("gristmill"), Followed("llama.cpp")
    for stem in REAL:
        model = f"{args.models}/{stem}.gguf"
        has_windows = any(key.endswith(".attention.sliding_window") for key in GGUFReader(model).fields)
        cases = json.loads(pathlib.Path(args.prompts or ROOT / f"fixtures/real/{stem}.json").read_text())
        for text in (case if isinstance(case, str) else case["prompt"] for case in cases):
            prompt = json.loads(ours(args, "tokenize", "-m", model, "--ids", "--no-escape", "-p", text))
            shared = ["--gristmill", args.gristmill, "--reference", args.reference]
            words = [sys.executable, str(ROOT / ".ci/peer.py"), "step-by-step", *shared, model, json.dumps(prompt)]
            words += ["--at-once"] if has_windows else []
            steps = json.loads(subprocess.check_output(words, text=True, stderr=subprocess.DEVNULL).splitlines()[-1])
            ids = prompt + [step[0] for step in steps[:-1]]
            # The reference's server computes the last four tokens of a prompt apart where it keeps checkpoints of windows.
            n_apart = 4 if has_windows and len(prompt) > 4 else 0
            batches = [n for n in (len(prompt) - n_apart, n_apart) if n]
            more = ["--arithmetic", "llama.cpp", "--batches", ",".join(map(str, batches))]
            shown = [
                own.compare(steps, log_probabilities(args, model, ids)[len(prompt) - 1 :]),
                followed.compare(steps, log_probabilities(args, model, ids, *more)[len(batches) - 1 :]),
            ]
            print(f"{stem} {text[:24]!r}: {len(steps)} ids; {'; '.join(shown)}", flush=True)
    print(f"{own}\n{followed}")
    sys.exit(followed.misses())


# Every recipe, loaded and run by the reference.


def architecture(args):
    """A model quantized to every recipe; the reference loads each file and says four tokens."""
    source = pathlib.Path(args.model)
    scratch = pathlib.Path(args.scratch)
    matrix, out = scratch / f"{source.stem}.imatrix.gguf", str(scratch / f"{source.stem}-quantized.gguf")
    sums = {}
    for tensor in GGUFReader(source).tensors:
        shape = [int(n) for n in tensor.shape]
        if len(shape) > 1:
            sums[tensor.name] = (np.ones((math.prod(shape[2:]), shape[0]), np.float32), 1)
    importance(matrix, sums)
    listed = ours(args, "quantize", "--help").split("Types:")[1].splitlines()
    names = [line.split()[1] for line in listed if line.split() and line.split()[0].isdigit()]
    n_files, n_run, refused = 0, 0, []
    for name in names:
        words = [args.gristmill, "quantize", "--force", "--json", "--imatrix", matrix, source, out, name]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            refused.append(f"{name}: {done.stderr.splitlines()[0]}")
            continue
        n_files += 1
        if args.encoder:
            n_run += subprocess.run([args.gristmill, "check", "--quick", out], capture_output=True).returncode == 0
            continue
        module = reference(args)
        server = module.start(argparse.Namespace(model=out, ctx=64, threads=1))
        answer = module.complete(server, prompt=[1, 5, 9], n_predict=4, temperature=0, ignore_eos=True)
        n_run += answer["usage"]["completion_tokens"] == 4
        del server
    how = "clean by check" if args.encoder else "loaded and run by the reference"
    print(f"{source.stem}: {len(names)} recipes, {n_files} files, {n_run} {how}; refused {refused}", flush=True)
    sys.exit(n_run != n_files or any("no type" not in text and "row" not in text for text in refused))


# What a choice by size is worth.


def divergence(args):
    """Mean KL divergence of `--target-bpw 4.5` and of Q4_K_M cut to that size, from one noisy F16 file."""
    scratch = pathlib.Path(args.scratch)
    source = scratch / "noisy-F16.gguf"
    ours(args, "quantize", "--force", "--allow-requantize", f"{args.models}/{REAL[0]}.gguf", source, "F16")
    file, random = GGUFReader(source, "r+"), np.random.default_rng(3)
    for tensor in file.tensors:
        if tensor.tensor_type == Type.F16:
            weights = tensor.data.astype(np.float32)
            scale = 0.05 * np.sqrt((weights * weights).mean(-1, keepdims=True))
            noise = random.standard_normal(weights.shape, dtype=np.float32)
            tensor.data[:] = (weights + scale * noise).astype(np.float16)
    file.data.flush()
    words = ["tokenize", "-m", source, "--ids", "--no-bos", "--no-parse-special", "-f", args.text]
    ids = json.loads(ours(args, *words))
    chunks = [ids[i * 384 : (i + 1) * 384] for i in range(4)]
    base = [log_probabilities(args, source, chunk)[96:] for chunk in chunks]

    def measured(name, options, *recipe):
        path = scratch / name
        report = json.loads(ours(args, "quantize", "--force", "--json", *options, source, path, *recipe))
        found = [log_probabilities(args, path, chunk)[96:] for chunk in chunks]
        kl = np.concatenate([(np.exp(p) * (p - q)).sum(1) for p, q in zip(base, found)])
        bits, n_bytes = report["bits_per_weight"], path.stat().st_size
        print(f"{name}: {bits:.2f} bits, {n_bytes / 1e6:.1f} MB, mean KL {kl.mean():.4f} over {len(kl)}", flush=True)
        return kl.mean(), n_bytes

    small = ["--token-embedding-type", "q4_0", "--tensor-type", "attn_(q|k|v|output)|ffn_(gate|up)=q4_0"]
    chosen, size = measured("target-4.5.gguf", ["--target-bpw", "4.5"])
    cut, cut_size = measured("cut-Q4_K_M.gguf", small, "Q4_K_M")
    sys.exit(not (chosen < cut and size <= cut_size))


def command_of(commands):
    """Makes commands with the flags that all have."""

    def command(run, *positional):
        sub = commands.add_parser(run.__name__.replace("_", "-"), help=run.__doc__)
        sub.set_defaults(run=run)
        sub.add_argument("--gristmill", default=str(ROOT / "target/release/gristmill"))
        sub.add_argument("--reference", default=str(ROOT / "../shared/tools"), help="folder of reference.py")
        sub.add_argument("--models", help="folder of the real models")
        sub.add_argument("--scratch", default=".", help="folder for large files")
        for name in positional:
            sub.add_argument(name)
        return sub

    return command


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    command = command_of(parser.add_subparsers(required=True))
    sub = command(synthetic, "vocabulary", "out")
    sub.add_argument("--layers", type=int, required=True)
    sub.add_argument("--type", choices=["f16", "bf16"], default="f16")
    command(inspect).add_argument("files", nargs="+")
    command(step_by_step, "model", "ids").add_argument("--at-once", action="store_true")
    command(greedy).add_argument("--prompts", help="a list of texts in place of the fixtures")
    command(architecture, "model").add_argument("--encoder", action="store_true")
    command(divergence, "text")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
