"""An exported model in Transformers beside the file itself: transformers_beside.py GRISTMILL MODEL SCRATCH.

The folder is exported in F32 and converted back, so that both compute with the same numbers; greedy ids of five texts.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = [
    "The capital of France is",
    "def fibonacci(n):\n",
    "从前有一座山，",
    "Once upon a time, in a small village,",
    "Water boils at",
]
N_IDS = 48


def main():
    gristmill, model, scratch = sys.argv[1:]
    folder, again = pathlib.Path(scratch) / "exported", pathlib.Path(scratch) / "exported-f32.gguf"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([gristmill, "export", model, folder], check=True)
    subprocess.run([gristmill, "convert", folder, "--outfile", again, "--outtype", "f32", "-f"], check=True)
    torch.set_num_threads(2)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ends = theirs.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    n_same = 0
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            out = theirs.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=N_IDS, do_sample=False, pad_token_id=0
            )
        expected = [id for id in out[0, ids.shape[1] :].tolist() if id not in ends]
        words = ["run", "-m", again, "-no-cnv", "--no-escape", "-p", text, "-n", str(N_IDS), "--temp", "0", "--json", "--log-disable"]
        done = subprocess.run([gristmill, *words, "-ctk", "f32", "-ctv", "f32"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        answer = json.loads(done.stdout)
        found = [id for id in answer["ids"] if id not in ends]
        same_prompt, same = answer["prompt_ids"] == ids[0].tolist(), found == expected
        n_same += same_prompt and same
        n = next((i for i, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]), min(len(found), len(expected)))
        print(f"{text!r}: prompt {'equal' if same_prompt else 'differs'}, {n} of {len(expected)} ids", flush=True)
    print(f"{pathlib.Path(model).name}: Transformers says the same of {n_same} of {len(TEXTS)} texts")
    sys.exit(n_same != len(TEXTS))


main()
