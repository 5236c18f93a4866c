//! Every flag of the reference's programs for running a model: it is taken, or refused by its name with the reason.

use crate::fixtures::with_model;
use crate::harness::Workplace;

/// Flags with a value where they take one, as the reference's manual groups them: what all programs share.
const SHARED: &str = "\
    -m other.gguf|--model other.gguf|-hf a/b|-hfr a/b|--hf-repo a/b|-hff f|--hf-file f|-hft t|--hf-token t|-mu http://[|--model-url http://[|\
    -dr a|--docker-repo a|--offline|-c 64|--ctx-size 64|-n 1|--predict 1|--n-predict 1|-b 8|--batch-size 8|-ub 8|--ubatch-size 8|\
    -t 1|--threads 1|-tb 1|--threads-batch 1|-C 1|--cpu-mask 1|-Cr 0-1|--cpu-range 0-1|-Cb 1|--cpu-mask-batch 1|-Crb 0-1|\
    --cpu-range-batch 0-1|--cpu-strict 0|--cpu-strict-batch 0|--prio 0|--prio-batch 0|--poll 50|--poll-batch 50|--keep 1|\
    -ngl 1|--gpu-layers all|--n-gpu-layers auto|-dev none|--device none|-sm layer|--split-mode row|-ts 3,1|--tensor-split 3,1|\
    -mg 0|--main-gpu 0|-ot a=CPU|--override-tensor a=CPU|-cmoe|--cpu-moe|-ncmoe 1|--n-cpu-moe 1|-ncffn 1|--n-cpu-ffn 1|\
    -fit on|--fit off|-fitt 1024|--fit-target 1024|-fitc 4096|--fit-ctx 4096|-fa on|--flash-attn auto|-ctk q8_0|--cache-type-k f32|\
    -ctv f16|--cache-type-v bf16|-kvo|--kv-offload|-nkvo|--no-kv-offload|--swa-full|-lm mmap|--load-mode mlock|--mmap|--no-mmap|\
    --mlock|-lzm auto|--lazy-mode on|--numa distribute|--repack|-nr|--no-repack|--no-host|--op-offload|--no-op-offload|--rpc h:1|\
    --check-tensors|--override-kv a=int:1|--lora a|--lora-scaled a:1|--control-vector a|--control-vector-scaled a:1|\
    --control-vector-layer-range 1 2|--rope-scaling none|--rope-scale 1|--rope-freq-base 1|--rope-freq-scale 1|--yarn-orig-ctx 1|\
    --yarn-ext-factor 1|--yarn-attn-factor 1|--yarn-beta-slow 1|--yarn-beta-fast 1|-p a|--prompt a|-f a|--file a|-bf a|\
    --binary-file a|-e|--escape|--no-escape|-s 1|--seed 1|--perf|--no-perf|--log-disable|--log-file log.txt|--log-jsonl|\
    --no-log-jsonl|--log-colors auto|-v|--verbose|-lv 3|--verbosity 3|--log-verbosity 3|--log-prefix|--no-log-prefix|\
    --log-timestamps|--no-log-timestamps|--warmup|--no-warmup|--list-devices|-cl|--cache-list|--completion-bash";

/// Draft models and look-up.
const SPECULATIVE: &str = "\
    -md a|--spec-draft-model a|--model-draft a|-hfd a/b|--spec-draft-hf a/b|-ngld 1|--spec-draft-ngl 1|-devd none|-td 1|-tbd 1|\
    --spec-draft-threads 1|--spec-draft-threads-batch 1|-hfrd a/b|--hf-repo-draft a/b|--threads-draft 1|--draft-p-min 0|\
    --spec-synth-len 2|-cmoed|-ncmoed 1|-otd a=CPU|\
    --spec-draft-device none|-ctkd f16|--spec-draft-type-k f16|-ctvd f16|--spec-draft-type-v f16|--spec-draft-n-max 3|\
    --spec-draft-n-min 0|--spec-draft-p-min 0|--spec-draft-p-split .1|--spec-draft-sampling greedy|--spec-type none|--spec-default|\
    --spec-ngram-simple-size-n 12|--spec-ngram-simple-size-m 48|--spec-ngram-simple-min-hits 1|--spec-ngram-map-k-size-n 12|\
    --spec-ngram-map-k-size-m 48|--spec-ngram-map-k-min-hits 1|--spec-ngram-map-k4v-size-n 12|--spec-ngram-map-k4v-size-m 48|\
    --spec-ngram-map-k4v-min-hits 1|--spec-ngram-mod-n-match 24|--spec-ngram-mod-n-min 48|--spec-ngram-mod-n-max 64|--draft 3|\
    --draft-n 3|--draft-max 3|--draft-min 0|--spec-ngram-size-n 1|--spec-ngram-size-m 1";

/// Sampling.
const SAMPLING: &str = "\
    --samplers top_k;temperature|--sampler-seq kt|--temp .8|--temperature .8|--top-k 40|--top-p .95|--min-p .05|--top-nsigma -1|\
    --xtc-probability 0|--xtc-threshold .1|--typical 1|--repeat-last-n 64|--repeat-penalty 1|--presence-penalty 0|\
    --frequency-penalty 0|--dry-multiplier 0|--dry-base 1.75|--dry-allowed-length 2|--dry-penalty-last-n 64|\
    --dry-sequence-breaker x|--dynatemp-range 0|--dynatemp-exp 1|--mirostat 0|--mirostat-lr .1|--mirostat-ent 5|\
    --adaptive-target -1|--adaptive-decay .9|-l 1+1|--logit-bias 1+1|--ignore-eos|--grammar a|--grammar-file a|-j {}|\
    --json-schema {}|-jf a|--json-schema-file a|-bs|--backend-sampling";

/// The chat client, and what continues a text.
const CHAT: &str = "\
    -sys a|--system-prompt a|-sysf a|--system-prompt-file a|-st|--single-turn|-cnv|--conversation|-no-cnv|--no-conversation|-r a|\
    --reverse-prompt a|-sp|--special|-mli|--multiline-input|-co auto|--color auto|--simple-io|--show-timings|--no-show-timings|\
    --display-prompt|--no-display-prompt|--verbose-prompt|--image a|--audio a|--video a|-mm a|--mmproj a|--no-mmproj|\
    --mmproj-offload|--no-mmproj-offload|--image-min-tokens 1|--image-max-tokens 1|--chat-template chatml|--chat-template-file a|\
    --chat-template-kwargs {}|--jinja|--no-jinja|--skip-chat-parsing|--no-skip-chat-parsing|--reasoning-format auto|-rea auto|\
    --reasoning auto|--reasoning-effort low|--reasoning-budget -1|--reasoning-budget-message a|--reasoning-preserve|\
    --no-reasoning-preserve|-o out.txt|--output out.txt|--server-base http://a|-cram 1|--cache-ram 1|-ctxcp 1|--ctx-checkpoints 1|\
    --context-shift|--no-context-shift|-i|--interactive|-if|--interactive-first|--in-prefix a|--in-suffix a|--in-prefix-bos|\
    --prompt-cache a|--prompt-cache-all|--prompt-cache-ro|-ptc 1|--print-token-count 1|-gan 1|--grp-attn-n 1|-gaw 512|\
    --grp-attn-w 512";

#[test]
fn every_flag_is_taken_or_refused_with_a_reason() {
    let mut wrong = Vec::new();
    let (mut n_taken, mut n_refused) = (0, 0);
    for entry in [SHARED, SPECULATIVE, SAMPLING, CHAT]
        .iter()
        .flat_map(|list| list.split('|'))
    {
        let place = Workplace::new();
        let flag = entry.split(' ').next().unwrap_or_default();
        let names_model = [
            "-m",
            "--model",
            "-hf",
            "-hfr",
            "--hf-repo",
            "-mu",
            "--model-url",
        ]
        .contains(&flag);
        let model = if names_model { "" } else { " nothing.gguf" };
        let offline = if entry.contains("a/b") {
            " --offline"
        } else {
            ""
        };
        let shown = place.run(&format!("gristmill run{model} {entry}{offline}"));
        let error = shown
            .lines()
            .find(|line| line.starts_with("error: "))
            .unwrap_or_default();
        let refusal = format!("error: '{flag}' ");
        // What is taken goes on to what is not there: the model, or the file that the flag names.
        if let Some(reason) = error.strip_prefix(&refusal) {
            n_refused += 1;
            let has_reason =
                reason.contains("is not supported: ") || reason.contains("asks for a download");
            if !has_reason {
                wrong.push(format!("{entry}: {error}"));
            }
        } else if error.contains("unexpected argument")
            || !(shown.starts_with("exit: 1") || names_model)
        {
            wrong.push(format!("{entry}: {shown}"));
        } else {
            n_taken += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        n_taken > 150 && n_refused > 30,
        "{n_taken} taken, {n_refused} refused"
    );
}

/// Flags that are taken and change nothing where a text is continued, and what is told of each. The flags of the same names with
/// the opposite meaning ask for what is done anyway.
const TOLD: &[(&str, &str)] = &[
    ("-fa off", "--flash-attn off changes nothing"),
    ("--flash-attn 0", "--flash-attn off changes nothing"),
    ("--no-jinja", "--no-jinja changes nothing"),
    ("--warmup", "--warmup changes nothing"),
    ("--perf", "--perf changes nothing"),
    ("--repack", "--repack changes nothing"),
    ("--op-offload", "--op-offload changes nothing"),
    ("--no-host", "--no-host changes nothing"),
    ("--keep 3", "--keep changes nothing without --context-shift"),
    ("-st", "--single-turn belongs to a chat"),
    ("--parse-special", "--parse-special belongs to a chat"),
    ("-sys a", "the system prompt belongs to a chat"),
    (
        "--chat-template chatml",
        "the chat template belongs to a chat",
    ),
    (
        "--chat-template-file a",
        "the chat template belongs to a chat",
    ),
    (
        "--chat-template-kwargs {}",
        "--chat-template-kwargs belongs to a chat",
    ),
    (
        "--skip-chat-parsing",
        "--skip-chat-parsing belongs to a chat",
    ),
    ("-rea off", "--reasoning belongs to a chat"),
    (
        "--reasoning-format none",
        "--reasoning-format belongs to a chat",
    ),
    (
        "--reasoning-effort low",
        "--reasoning-effort belongs to a chat",
    ),
    (
        "--reasoning-budget 3",
        "--reasoning-budget belongs to a chat",
    ),
    (
        "--reasoning-preserve",
        "--reasoning-preserve belongs to a chat",
    ),
    (
        "--no-reasoning-preserve",
        "--reasoning-preserve belongs to a chat",
    ),
    ("--n-probs 2", "--n-probs changes nothing without"),
    (
        "--post-sampling-probs",
        "--post-sampling-probs changes nothing without",
    ),
    (
        "--prompt-cache-ro",
        "--prompt-cache-ro changes nothing without",
    ),
    (
        "--prompt-cache-all",
        "--prompt-cache-all changes nothing without",
    ),
    ("-ngl 1", GPU),
    ("--gpu-layers all", GPU),
    ("--n-gpu-layers auto", GPU),
    ("-dev CUDA0", GPU),
    ("-sm row", GPU),
    ("-ts 3,1", GPU),
    ("-mg 0", GPU),
    ("-ot a=CPU", GPU),
    ("-cmoe", GPU),
    ("-ncmoe 1", GPU),
    ("-ncffn 1", GPU),
    ("-fit on", GPU),
    ("-fitt 1024", GPU),
    ("-fitc 4096", GPU),
    ("-kvo", GPU),
    ("-nkvo", GPU),
];

const GPU: &str = "the GPU flags change nothing";

#[test]
fn a_flag_without_effect_is_told() {
    let place = with_model();
    let line = "gristmill run -m a.gguf -no-cnv -p x -n 1 --no-show-timings";
    let plain = place.run(line);
    assert!(
        plain.starts_with("exit: 0") && !plain.contains("note:"),
        "{plain}"
    );
    let out = |shown: &str| {
        shown
            .split("\n--- stderr")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let mut wrong = Vec::new();
    for (flag, told) in TOLD {
        let shown = place.run(&format!("{line} {flag} --temp 0 -s 1"));
        let notes = shown.lines().filter(|line| line.starts_with("note: "));
        let n_notes = notes.filter(|note| note.contains(told)).count();
        if n_notes != 1 || !shown.starts_with("exit: 0") {
            wrong.push(format!("{flag}: {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What is asked for is what is done.
    let temp = place.run(&format!("{line} --temp 0"));
    for flag in [
        "-fa on",
        "-fa",
        "-fa auto",
        "--jinja",
        "--no-warmup",
        "--no-perf",
        "-nr",
        "--no-op-offload",
    ] {
        let shown = place.run(&format!("{line} --temp 0 {flag}"));
        assert!(
            !shown.contains("note:") && out(&shown) == out(&temp),
            "{flag}: {shown}"
        );
    }
}

#[test]
fn values_of_flags_without_effect_are_checked() {
    let place = Workplace::new();
    for (command, flag) in [
        ("run", "-fa maybe"),
        ("run", "-ngl foo"),
        ("run", "-ngld foo"),
        ("run", "-sm diagonal"),
        ("run", "-mg first"),
        ("run", "-fit perhaps"),
        ("run", "--log-colors blue"),
        ("embed", "-fa maybe"),
        ("rerank", "-q x -d y -ngl foo"),
    ] {
        let shown = place.run(&format!("gristmill {command} -m no.gguf {flag}"));
        let value = flag.rsplit(' ').next().unwrap_or_default();
        assert!(
            shown.starts_with("exit: 2")
                && shown.contains(&format!("invalid value '{value}' for '--")),
            "{flag}: {shown}"
        );
    }
}

#[test]
fn messages_have_the_form_that_is_asked_for() {
    let place = with_model();
    let told = |flags: &str| {
        let line =
            format!("gristmill run -m a.gguf -no-cnv -p x -n 1 --perf --log-file log.txt {flags}");
        let shown = place.run(&line);
        let log = std::fs::read_to_string(place.path("log.txt")).expect("it was written");
        let line = |text: &str| {
            let mut lines = text.lines().filter(|line| line.contains("--perf changes"));
            lines.next().unwrap_or_default().to_owned()
        };
        (line(&shown), line(&log))
    };
    let note = "note: --perf changes nothing: --show-timings shows timings";
    let same = |text: &str| (text.to_owned(), text.to_owned());
    assert_eq!(told("--no-log-prefix --no-log-timestamps"), same(note));
    assert_eq!(told("--log-prefix"), same(&format!("I {note}")));
    let (shown, log) = told("--log-prefix --log-timestamps");
    assert_eq!(shown, log);
    let (time, rest) = log.split_once(' ').expect("there is a time");
    assert_eq!(rest, format!("I {note}"));
    let digits: Vec<usize> = time.split('.').map(str::len).collect();
    assert!(digits[1..] == [2, 3, 3] && digits[0] >= 1, "{time}");
    let failed = place.run("gristmill run -m no.gguf --log-prefix --log-colors on");
    assert!(failed.contains("\u{1b}[31mE error: no.gguf"), "{failed:?}");
    let plain = place.run("gristmill run -m no.gguf --log-colors auto");
    assert!(plain.contains("\nerror: no.gguf"), "{plain:?}");
}

#[test]
fn the_environment_stands_for_flags_that_are_not_given() {
    let place = with_model();
    let run = |variables: &[(&str, &str)], words: &str| {
        let mut command = place.command("gristmill");
        command
            .args(words.split(' '))
            .envs(variables.iter().copied());
        place.show(&command.output().expect("the binary starts"))
    };
    let line = "run -m a.gguf -no-cnv -p ROMEO: --temp 0 --log-disable";
    let four = run(&[], &format!("{line} -n 4"));
    let two = run(&[], &format!("{line} -n 2"));
    assert!(four.starts_with("exit: 0") && four != two, "{four}");
    assert_eq!(run(&[("LLAMA_ARG_N_PREDICT", "4")], line), four);
    assert_eq!(
        run(&[("LLAMA_ARG_N_PREDICT", "4")], &format!("{line} -n 2")),
        two
    );
    let wrong = run(&[("LLAMA_ARG_CTX_SIZE", "much")], line);
    let text =
        "error: LLAMA_ARG_CTX_SIZE of the environment: invalid value 'much' for '--ctx-size <N>'";
    assert!(
        wrong.starts_with("exit: 2") && wrong.contains(text),
        "{wrong}"
    );
    // A list takes nothing from a variable where its flag is given, and a name of any flag counts.
    let none = [("LLAMA_ARG_SPEC_TYPE", "ngram-mod")];
    assert_eq!(run(&none, &format!("{line} -n 2 --spec-type none")), two);
    let draft = [("LLAMA_ARG_SPEC_DRAFT_HF_REPO", "user/none")];
    let named = run(&draft, &format!("{line} -n 2 --model-draft a.gguf"));
    assert_eq!(named, two);
    // A command without the flag does not read it.
    let inspected = run(&[("LLAMA_ARG_PERF", "maybe")], "tokenize -m a.gguf -p Hi");
    assert!(inspected.starts_with("exit: 0"), "{inspected}");
    // What the environment has written is nothing that is read.
    place.write("talk.json", "[]");
    let log = [("LLAMA_ARG_LOG_FILE", "talk.json")];
    let refused = run(&log, "run -m a.gguf -st -p Hi --history talk.json");
    assert!(
        refused.contains("talk.json: 2 arguments name this file"),
        "{refused}"
    );
    assert_eq!(std::fs::read(place.path("talk.json")).unwrap(), b"[]");
    let wrong = run(&[("LLAMA_ARG_MMAP", "maybe")], line);
    let text = "error: LLAMA_ARG_MMAP of the environment: \"maybe\" is neither on nor off";
    assert!(
        wrong.starts_with("exit: 2") && wrong.contains(text),
        "{wrong}"
    );
    // Switches, also in their other form; a flag that excludes it goes before.
    let perf = "run -m a.gguf -no-cnv -p x -n 1";
    let note = "note: --perf changes nothing";
    for (name, value, is_told) in [
        ("LLAMA_ARG_PERF", "enabled", true),
        ("LLAMA_ARG_PERF", "0", false),
        ("LLAMA_ARG_NO_PERF", "1", false),
    ] {
        let shown = run(&[(name, value)], perf);
        assert!(
            shown.starts_with("exit: 0") && shown.contains(note) == is_told,
            "{name}: {shown}"
        );
    }
    let apart = run(&[("LLAMA_ARG_MMAP", "0")], &format!("{perf} -lm mmap"));
    assert!(apart.starts_with("exit: 0"), "{apart}");
    // Every command that opens a model reads them, others do not.
    let wrong = run(&[("LLAMA_ARG_POOLING", "some")], "embed -m a.gguf -p x");
    assert!(
        wrong.contains("error: LLAMA_ARG_POOLING of the environment"),
        "{wrong}"
    );
    let cut = run(&[("LLAMA_ARG_CTX_SIZE", "64")], "estimate a.gguf --json");
    assert!(cut.contains("\"context\": 64"), "{cut}");
    let other = run(
        &[("LLAMA_ARG_THREADS", "many")],
        "quantize a.gguf b.gguf q8_0",
    );
    assert!(other.starts_with("exit: 0"), "{other}");
}
