"""What `gristmill estimate` says beside what runs take: estimate.py GRISTMILL MODELS_FOLDER SCRATCH

Six models under four settings each. A run fills its context, so that all of its cache is used; meanwhile the system is asked
how many pages of files and how many of its own it has in memory (RssFile and RssAnon of /proc), of which the largest counts.
The estimate counts what the program is made of as anonymous, the system counts a part of that as pages of a file: totals are
compared. A row is out of bounds, and the exit code 1, where the difference is above 5 % and above 16 MiB.

Wants what peer.py wants.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import peer

SETTINGS = (
    "-c 512",
    "-c 768 -ub 128",
    "-c 2048 -ctk q8_0 -ctv q8_0",
    "-c 1024 -b 1024 -ub 1024 --no-mmap",
)
MIB = 1 << 20


def made(gristmill, scratch, name, *words):
    """A model that the binary makes."""
    path = scratch / name
    if not path.exists():
        subprocess.run([gristmill, *map(str, words), path], check=True, capture_output=True)
    return path


def sparse(vocabulary, path):
    """A llama of 2.4 GB whose weights are the zeros of a file without blocks."""
    options = argparse.Namespace(vocabulary=vocabulary, out=path, layers=24, type="f16")
    writer, shapes = peer.synthetic_header(options)
    writer.close()
    size = -(-path.stat().st_size // 32) * 32
    for shape in shapes.values():
        size += 4 * shape[0] if len(shape) == 1 else 2 * shape[0] * shape[1]
    os.truncate(path, size)
    return path


def models(gristmill, folder, scratch):
    small, gemma = (folder / f"{name}.gguf" for name in peer.REAL)
    tiny = peer.ROOT / "models/tiny"
    yield made(gristmill, scratch, "tiny.gguf", "convert", tiny, "--outtype", "bf16", "--outfile")
    yield small
    yield from (requantized(gristmill, scratch, source, kind) for source, kind in ((small, "F16"), (gemma, "Q8_0")))
    yield gemma
    yield sparse(small, scratch / "synthetic.gguf")


def requantized(gristmill, scratch, source, kind):
    path = scratch / f"{source.stem}-{kind}.gguf"
    if not path.exists():
        words = [gristmill, "quantize", "--allow-requantize", source, path, kind]
        subprocess.run(words, check=True, capture_output=True)
    return path


def prompt(gristmill, model, n_tokens, path):
    """Writes a text of so many tokens, or one less."""

    def count(n_words):
        path.write_text(" ".join(["river", "stone", "light"][word % 3] for word in range(n_words)))
        words = [gristmill, "tokenize", "-m", model, "-f", path, "--ids"]
        return len(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout))

    low, high = 1, n_tokens
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(middle) <= n_tokens else (low, middle - 1)
    count(low)


def measured(words):
    """The most that a run has in memory: pages of files, and of its own."""
    most = {"RssFile": 0, "RssAnon": 0}
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        for line in status.splitlines():
            name, _, value = line.partition(":")
            if name in most:
                most[name] = max(most[name], int(value.split()[0]) * 1024)
        time.sleep(0.005)
    if process.wait():
        raise SystemExit(f"{words}: {process.stderr.read().decode()}")
    return most["RssFile"], most["RssAnon"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("gristmill", "models", "scratch"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).resolve())
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    text = args.scratch / "prompt.txt"
    n_wrong = 0
    print("model | settings | weights | anonymous | total | files | own | measured | difference (MiB, %)")
    for model in models(args.gristmill, args.models, args.scratch):
        for settings in SETTINGS:
            flags = settings.split()
            n_context = int(flags[1])
            prompt(args.gristmill, model, n_context - 4, text)
            shared = [flag for flag in flags if flag != "--no-mmap"]
            said = json.loads(peer.ours(args, "estimate", "--json", model, *shared))
            words = [args.gristmill, "run", "-m", model, "-no-cnv", "-f", text, "-n", "3", "--temp", "0", *flags]
            files, own = measured(words)
            difference = said["total"] - files - own
            share = 100 * difference / (files + own)
            is_wrong = abs(difference) > 16 * MIB and abs(share) > 5
            n_wrong += is_wrong
            sizes = [said["weights"], said["anonymous"], said["total"], files, own, files + own, difference]
            cells = [f"{size / MIB:.1f}" for size in sizes]
            mark = " OUT OF BOUNDS" if is_wrong else ""
            print(f"{model.stem} | {settings} | {' | '.join(cells)} ({share:+.1f} %){mark}", flush=True)
    if n_wrong:
        sys.exit(f"{n_wrong} rows are out of bounds")


if __name__ == "__main__":
    main()
