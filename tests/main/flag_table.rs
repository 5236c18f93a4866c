//! Every flag of the reference's programs for running a model: it is taken, or refused by its name with the reason.

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
