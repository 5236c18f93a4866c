#!/usr/bin/env python3
"""What each stage of sampling does to a model's answers, as the table of docs/sampling.md.

    measure_sampling.py GRISTMILL MODEL

Every row continues the same prompts with the same seed, with the stages named and no others. Kept: candidates that the
stages leave, the mean over all steps. Entropy: of what the draw sees, in bits, the mean too. Repeated: the share of the
answers' runs of four tokens that were there before.
"""

import json
import math
import subprocess
import sys

PROMPTS = ["The old house at the end of the street", "Water boils when", "def add(a, b):"]
SEED = 1
N_TOKENS = 60
# Of the whole vocabulary the rest of the probability is too small to see.
N_PROBS = 3000

ROWS = [
    ("none", "--samplers temperature --temp 1"),
    ("`--temp 0`", "--temp 0"),
    ("`--temp 0.5`", "--samplers temperature --temp 0.5"),
    ("`--temp 1.5`", "--samplers temperature --temp 1.5"),
    ("`--dynatemp-range 0.5`", "--samplers temperature --temp 1 --dynatemp-range 0.5"),
    ("`--top-k 40`", "--samplers top_k;temperature --temp 1 --top-k 40"),
    ("`--top-p 0.95`", "--samplers top_p;temperature --temp 1 --top-p 0.95"),
    ("`--min-p 0.05`", "--samplers min_p;temperature --temp 1 --min-p 0.05"),
    ("`--top-nsigma 1`", "--samplers top_n_sigma;temperature --temp 1 --top-nsigma 1"),
    ("`--typical 0.9`", "--samplers typ_p;temperature --temp 1 --typical 0.9"),
    (
        "`--xtc-probability 0.5`, behind `--min-p 0.05`",
        "--samplers min_p;xtc;temperature --temp 1 --min-p 0.05 --xtc-probability 0.5",
    ),
    ("`--repeat-penalty 1.1`", "--samplers penalties;temperature --temp 1 --repeat-penalty 1.1"),
    ("`--repeat-penalty 1.1 --temp 0`", "--temp 0 --repeat-penalty 1.1"),
    ("`--dry-multiplier 0.8 --temp 0`", "--temp 0 --dry-multiplier 0.8"),
    ("`--mirostat 1 --mirostat-ent 3`", "--temp 1 --mirostat 1 --mirostat-ent 3"),
    ("`--mirostat 2 --mirostat-ent 3`", "--temp 1 --mirostat 2 --mirostat-ent 3"),
    (
        "adaptive_p, `--adaptive-target 0.3`, behind `--min-p 0.05`",
        "--samplers min_p;temperature;adaptive_p --temp 1 --min-p 0.05 --adaptive-target 0.3",
    ),
    ("the defaults", ""),
]


def steps(program, model, prompt, flags):
    common = ["-m", model, "-no-cnv", "-p", prompt, "-n", str(N_TOKENS), "-s", str(SEED), "--ignore-eos", "--log-disable"]
    shown = ["--output-format", "json", "--n-probs", str(N_PROBS), "--post-sampling-probs"]
    run = subprocess.run([program, "run", *common, *flags.split(), *shown], capture_output=True, check=True)
    return json.loads(run.stdout)["completion_probabilities"]


def measured(program, model, flags):
    kept, entropy, repeated, n_runs = [], [], 0, 0
    for prompt in PROMPTS:
        answer = steps(program, model, prompt, flags)
        for step in answer:
            probabilities = [token["prob"] for token in step["top_probs"] if token["prob"] > 0]
            kept.append(len(probabilities))
            entropy.append(-sum(p * math.log2(p) for p in probabilities))
        ids = [step["id"] for step in answer]
        runs = [tuple(ids[i : i + 4]) for i in range(len(ids) - 3)]
        repeated += len(runs) - len(set(runs))
        n_runs += len(runs)
    n_kept = sum(kept) / len(kept)
    shown = "over 1000" if n_kept > 1000 else f"{n_kept:.1f}"
    return shown, f"{sum(entropy) / len(entropy):.2f}", f"{repeated / n_runs:.0%}"


def main():
    program, model = sys.argv[1:]
    print("| stages | kept | entropy | repeated |\n|---|---|---|---|")
    for name, flags in ROWS:
        print(f"| {name} | {' | '.join(measured(program, model, flags))} |", flush=True)


if __name__ == "__main__":
    main()
