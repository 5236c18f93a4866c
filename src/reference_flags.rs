//! The reference's flags, so that one that is not supported is told from one that does not exist.

/// Every flag of the reference's tools that have a command here, and of its common options, in alphabetical order.
const KNOWN: &str = "\
    --adaptive-decay --adaptive-target --agent --alias --allow-requantize --api-key --api-key-file --api-prefix \
    --attention --audio --backend-sampling --batch-size --bigendian --binary-file --cache-idle-slots --cache-list \
    --cache-prompt --cache-ram --cache-reuse --cache-type-k --cache-type-k-draft --cache-type-v --cache-type-v-draft \
    --chat-template --chat-template-file --chat-template-kwargs --check --check-tensors --checkpoint-min-step \
    --chunk --chunk-separator --chunk-size --chunks --cls-separator --color --completion-bash --cont-batching \
    --context-file --context-shift --control-vector --control-vector-layer-range --control-vector-scaled \
    --conversation --cors-credentials --cors-headers --cors-methods --cors-origins --cpu-mask --cpu-mask-batch \
    --cpu-mask-batch-draft --cpu-mask-draft --cpu-moe --cpu-moe-draft --cpu-range --cpu-range-batch \
    --cpu-range-batch-draft --cpu-range-draft --cpu-strict --cpu-strict-batch --cpu-strict-batch-draft \
    --cpu-strict-draft --ctx-checkpoints --ctx-size --defrag-thold --delete-splits --device --device-draft --dflash \
    --diffusion-add-gumbel-noise --diffusion-alg-temp --diffusion-algorithm --diffusion-block-length \
    --diffusion-cfg-scale --diffusion-eps --diffusion-steps --diffusion-visual \
    --disable-mistral-community-chat-template --display-prompt --docker-repo --draft --draft-max --draft-min \
    --draft-n --draft-n-min --draft-p-min --draft-p-split --dry-allowed-length --dry-base --dry-multiplier \
    --dry-penalty-last-n --dry-run --dry-sequence-breaker --dspark --dynatemp-exp --dynatemp-range --eagle3 \
    --embd-gemma-default --embd-normalize --embd-output-format --embd-separator --embedding --embeddings --epochs \
    --escape --exclude-weights --file --fim-qwen-14b-spec --fim-qwen-30b-default --fim-qwen-3b-default \
    --fim-qwen-7b-default --fim-qwen-7b-spec --fit --fit-ctx --fit-print --fit-target --flash-attn --fp8-as-q8 \
    --frequency-penalty --from-chunk --fuse-gate-up-exps --fuse-qkv --gpt-oss-120b-default --gpt-oss-20b-default \
    --gpu-layers --gpu-layers-draft --grammar --grammar-file --grp-attn-n --grp-attn-w --hellaswag --hellaswag-tasks \
    --hf-file --hf-repo --hf-repo-draft --hf-token --host --ids --ignore-eos --image --image-max-tokens \
    --image-min-tokens --imatrix --in-file --in-prefix --in-prefix-bos --in-suffix --include-weights --interactive \
    --interactive-first --jinja --json-schema --json-schema-file --junk --keep --keep-split --kl-divergence \
    --kl-divergence-base --kv-offload --kv-unified --kv-unified-per-slot --lazy-mode --learning-rate \
    --learning-rate-decay-epochs --learning-rate-min --leave-output-tensor --list-devices --load-mode --log-colors \
    --log-disable --log-file --log-jsonl --log-prefix --log-prompts-dir --log-timestamps --log-verbose \
    --log-verbosity --logit-bias --logits-output-dir --lookup-cache-dynamic --lookup-cache-static --lora \
    --lora-init-without-apply --lora-scaled --main-gpu --max-buffer-size --mcp-servers-config --mcp-servers-json \
    --media-path --merge --metadata --method --metrics --min-p --mirostat --mirostat-ent --mirostat-lr \
    --mistral-format --mmproj --mmproj-auto --mmproj-device --mmproj-offload --mmproj-url --model --model-draft \
    --model-name --model-url --models-autoload --models-dir --models-max --models-preset --mtmd-batch-max-tokens \
    --mtp --multiline-input --multiple-choice --multiple-choice-tasks --n-cpu-ffn --n-cpu-moe --n-cpu-moe-draft \
    --n-gpu-layers --n-gpu-layers-draft --n-predict --negative-file --nextn --no-agent --no-bos \
    --no-cache-idle-slots --no-cache-prompt --no-cont-batching --no-context-shift --no-conversation \
    --no-cors-credentials --no-display-prompt --no-escape --no-host --no-jinja --no-kv-offload --no-kv-unified \
    --no-lazy --no-log-jsonl --no-log-prefix --no-log-timestamps --no-mmproj --no-mmproj-auto --no-mmproj-offload \
    --no-models-autoload --no-mtp --no-nextn --no-op-offload --no-parse-special --no-perf --no-ppl \
    --no-prefill-assistant --no-reasoning-preserve --no-repack --no-show-timings --no-skip-chat-parsing --no-slots \
    --no-spec-draft-backend-sampling --no-tensor-first-split --no-ui --no-ui-mcp-proxy --no-warmup --no-webui \
    --no-webui-mcp-proxy --numa --offline --op-offload --optimizer --outfile --output --output-file --output-format \
    --output-frequency --output-tensor-type --outtype --override-kv --override-tensor --override-tensor-draft \
    --parallel --parse-special --path --pca-batch --pca-iter --perf --poll --poll-batch --poll-batch-draft \
    --poll-draft --pooling --port --pos --positive-file --ppl --ppl-output-type --ppl-stride --predict \
    --prefill-assistant --presence-penalty --print-supported-models --print-token-count --prio --prio-batch \
    --prio-batch-draft --prio-draft --process-output --prompt --prompt-cache --prompt-cache-all --prompt-cache-ro \
    --props --prune-layers --pure --reasoning --reasoning-budget --reasoning-budget-message --reasoning-effort \
    --reasoning-format --reasoning-preserve --remote --repack --repeat-last-n --repeat-penalty --rerank --reranking \
    --reuse-port --reverse-prompt --rope-freq-base --rope-freq-scale --rope-scale --rope-scaling --rpc --sampler-seq \
    --samplers --sampling-seq --save-all-logits --save-frequency --save-logits --seed \
    --sentence-transformers-dense-modules --sequences --server-base --show-count --show-statistics --show-timings \
    --simple-io --single-turn --skip-chat-parsing --sleep-idle-seconds --slot-prompt-similarity --slot-save-path \
    --slots --spec-default --spec-draft-backend-sampling --spec-draft-cpu-mask --spec-draft-cpu-mask-batch \
    --spec-draft-cpu-moe --spec-draft-cpu-range --spec-draft-cpu-range-batch --spec-draft-cpu-strict \
    --spec-draft-cpu-strict-batch --spec-draft-device --spec-draft-hf --spec-draft-model --spec-draft-n-cpu-moe \
    --spec-draft-n-max --spec-draft-n-min --spec-draft-ncmoe --spec-draft-ngl --spec-draft-override-tensor \
    --spec-draft-p-min --spec-draft-p-split --spec-draft-poll --spec-draft-poll-batch --spec-draft-prio \
    --spec-draft-prio-batch --spec-draft-sampling --spec-draft-threads --spec-draft-threads-batch \
    --spec-draft-type-k --spec-draft-type-v --spec-ngram-map-k-min-hits --spec-ngram-map-k-size-m \
    --spec-ngram-map-k-size-n --spec-ngram-map-k4v-min-hits --spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-size-n \
    --spec-ngram-min-hits --spec-ngram-mod-n-match --spec-ngram-mod-n-max --spec-ngram-mod-n-min \
    --spec-ngram-simple-min-hits --spec-ngram-simple-size-m --spec-ngram-simple-size-n --spec-ngram-size-m \
    --spec-ngram-size-n --spec-synth-len --spec-synth-rates --spec-type --special --split --split-max-size \
    --split-max-tensors --split-mode --spm-infill --sse-ping-interval --ssl-cert-file --ssl-key-file --stdin \
    --swa-checkpoints --swa-full --system-prompt --system-prompt-file --tags --target-model-dir --temp --temperature \
    --tensor-filter --tensor-split --tensor-type --tensor-type-file --threads --threads-batch --threads-batch-draft \
    --threads-draft --threads-http --timeout --token-embedding-type --tools --tools-runtime --top-k --top-n-sigma \
    --top-nsigma --top-p --tts-lang --tts-speaker-file --typical --typical-p --ubatch-size --ui --ui-config \
    --ui-config-file --ui-mcp-proxy --usage --use-temp-file --val-split --verbose --verbose-prompt --verbosity \
    --video --video-ffmpeg-dir --video-fps --video-timestamp-interval --vision-gemma-12b-default \
    --vision-gemma-4b-default --vocab-only --warmup --webui --webui-config --webui-config-file --webui-mcp-proxy \
    --weight-decay --winogrande --winogrande-tasks --xtc-probability --xtc-threshold --yarn-attn-factor \
    --yarn-beta-fast --yarn-beta-slow --yarn-ext-factor --yarn-orig-ctx -C -Cb -Cbd -Cd -Cr -Crb -Crbd -Crd -a -ag \
    -b -bf -bs -c -cb -cl -cmoe -cmoed -cms -cnv -co -cram -ctk -ctkd -ctv -ctvd -ctxcp -decay-epochs -dev -devd -dr \
    -dt -e -epochs -f -fa -fit -fitc -fitp -fitt -gan -gaw -hf -hfd -hff -hfr -hfrd -hft -i -if -j -jf -kvo -kvu -l \
    -lcd -lcs -lm -lr -lr-min -lv -lzm -m -md -mg -mli -mm -mmdev -mmu -mu -n -ncffn -ncmoe -ncmoed -ngl -ngld -nkvo \
    -no-ag -no-cnv -no-kvu -nocb -np -npl -npp -nr -ns -ntg -o -ofreq -opt -ot -otd -p -pps -ptc -r -rea -s -sm -sp \
    -sps -st -sys -sysf -t -tb -tbd -td -tgs -to -ts -ub -v -val-split -wd";

/// Flags of several letters behind one dash that a command here has, and the long flag that each stands for.
const SEVERAL_LETTERS: &[(&str, &str)] = &[
    ("-bf", "binary-file"),
    ("-cmoe", "cpu-moe"),
    ("-cnv", "conversation"),
    ("-co", "color"),
    ("-ctk", "cache-type-k"),
    ("-ctkd", "spec-draft-type-k"),
    ("-ctv", "cache-type-v"),
    ("-ctvd", "spec-draft-type-v"),
    ("-dev", "device"),
    ("-devd", "spec-draft-device"),
    ("-fa", "flash-attn"),
    ("-fit", "fit"),
    ("-fitc", "fit-ctx"),
    ("-fitt", "fit-target"),
    ("-hf", "hf-repo"),
    ("-hfd", "spec-draft-hf"),
    ("-hff", "hf-file"),
    ("-hft", "hf-token"),
    ("-if", "interactive-first"),
    ("-jf", "json-schema-file"),
    ("-kvo", "kv-offload"),
    ("-lm", "load-mode"),
    ("-lv", "verbosity"),
    ("-md", "spec-draft-model"),
    ("-mg", "main-gpu"),
    ("-mli", "multiline-input"),
    ("-mu", "model-url"),
    ("-ncffn", "n-cpu-ffn"),
    ("-ncmoe", "n-cpu-moe"),
    ("-ngl", "gpu-layers"),
    ("-ngld", "spec-draft-ngl"),
    ("-nkvo", "no-kv-offload"),
    ("-no-cnv", "no-conversation"),
    ("-np", "parallel"),
    ("-ot", "override-tensor"),
    ("-rea", "reasoning"),
    ("-sm", "split-mode"),
    ("-sp", "special"),
    ("-st", "single-turn"),
    ("-sys", "system-prompt"),
    ("-sysf", "system-prompt-file"),
    ("-tb", "threads-batch"),
    ("-tbd", "spec-draft-threads-batch"),
    ("-td", "spec-draft-threads"),
    ("-ts", "tensor-split"),
    ("-ub", "ubatch-size"),
];

/// Further spellings of that kind.
const FURTHER_LETTERS: &[(&str, &str)] = &[
    ("-hfr", "hf-repo"),
    ("-hfrd", "spec-draft-hf"),
    ("-nr", "no-repack"),
];

/// Flags that fetch files, and that no command here has.
const DOWNLOADS: &[&str] = &["--docker-repo", "--mmproj-url", "-dr", "-mmu"];

/// The long flag, without its dashes, that a flag of several letters behind one dash stands for.
pub fn long_of(several_letters: &str) -> Option<&'static str> {
    let mut forms = SEVERAL_LETTERS.iter().chain(FURTHER_LETTERS);
    let form = forms.find(|(form, _)| *form == several_letters)?;
    Some(form.1)
}

/// The form of several letters behind one dash that an argument has.
pub fn several_letters(argument: &clap::Arg) -> Option<&'static str> {
    let mut forms = SEVERAL_LETTERS.iter();
    let form = forms.find(|(_, long)| argument.get_long() == Some(*long))?;
    Some(form.0)
}

/// Whether the reference has this flag.
pub fn is_known(flag: &str) -> bool {
    KNOWN.split(' ').any(|known| known == flag)
}

/// Why a command refuses a flag.
#[derive(PartialEq, Eq)]
enum Refusal {
    /// It fetches files; what to do in place of that, or why there is no use for them.
    Download(&'static str),
    /// No command stands before it, and these have it.
    NoCommand(Vec<&'static str>),
    /// These other commands have it.
    OfOthers(Vec<&'static str>),
    /// There is this reason.
    Reason(&'static str),
    /// The reference has it.
    Unsupported,
    /// Nobody has it.
    Unknown,
}

impl Refusal {
    fn of(parser: &clap::Command, flag: &str) -> Refusal {
        let reason = crate::flag_reasons::reason(flag);
        if DOWNLOADS.contains(&flag) {
            return Refusal::Download(reason.unwrap_or("fetch the file and give its path"));
        }
        if let Some(reason) = reason
            && parser.get_name() != "gristmill"
        {
            return Refusal::Reason(reason);
        }
        let others = crate::cmd::names_with(flag);
        match (others.is_empty(), parser.has_subcommands()) {
            (false, true) => Refusal::NoCommand(others),
            (false, false) => Refusal::OfOthers(others),
            (true, _) if is_known(flag) => Refusal::Unsupported,
            (true, _) => Refusal::Unknown,
        }
    }
}

/// What to say to flags that a command does not have: the first, and with it those that are refused for the same reason.
pub fn refusal(parser: &clap::Command, flags: &[String]) -> String {
    let Some(first) = flags.first().map(|flag| Refusal::of(parser, flag)) else {
        return String::new();
    };
    let alike = flags
        .iter()
        .filter(|flag| Refusal::of(parser, flag) == first);
    let mut names: Vec<String> = alike
        .map(|flag| format!("'{}'", crate::display::printable(flag)))
        .collect();
    names.dedup();
    let all = names.join(", ");
    let one = names.len() == 1;
    match first {
        Refusal::Download(remedy) if one => {
            format!("{all} asks for a download that is not supported: {remedy}")
        }
        Refusal::Download(remedy) => {
            format!("{all} ask for downloads that are not supported: {remedy}")
        }
        Refusal::NoCommand(commands) => {
            let command = commands.iter().find(|command| **command == "run");
            let command = command.or(commands.first()).unwrap_or(&"run");
            format!(
                "a command is missing before {all}, as in `gristmill {command} {}`",
                all.replace(['\'', ','], "")
            )
        }
        Refusal::OfOthers(commands) => {
            let commands = commands.join("`, `");
            let (is, it) = if one {
                ("is", "it is a flag")
            } else {
                ("are", "they are flags")
            };
            format!(
                "{all} {is} not supported by `{}`; {it} of `{commands}`",
                parser.get_name()
            )
        }
        Refusal::Reason(reason) if one => format!("{all} is not supported: {reason}"),
        Refusal::Reason(reason) => format!("{all} are not supported: {reason}"),
        Refusal::Unsupported if one => {
            format!("{all} is a flag of the reference that is not supported here yet; leave it out")
        }
        Refusal::Unsupported => {
            format!(
                "{all} are flags of the reference that are not supported here yet; leave them out"
            )
        }
        Refusal::Unknown => {
            format!(
                "unexpected argument {all} found: flags of one letter stand alone, their values apart"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_sorted_and_each_is_there_once() {
        let flags: Vec<&str> = KNOWN.split(' ').collect();
        assert!(flags.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(flags.iter().all(|flag| flag.starts_with('-')));
        assert!(
            DOWNLOADS.is_sorted()
                && FURTHER_LETTERS.is_sorted()
                && DOWNLOADS.iter().all(|flag| is_known(flag))
        );
        assert!(SEVERAL_LETTERS.is_sorted());
        let mut longs: Vec<&str> = SEVERAL_LETTERS.iter().map(|(_, long)| *long).collect();
        longs.sort_unstable();
        assert!(longs.windows(2).all(|pair| pair[0] < pair[1]));
        for (form, long) in SEVERAL_LETTERS {
            assert!(is_known(form) && is_known(&format!("--{long}")), "{form}");
            let commands = crate::cmd::names_with(&format!("--{long}"));
            assert!(!commands.is_empty(), "no command has --{long}");
        }
    }

    #[test]
    fn help_names_the_form_of_several_letters() {
        let program = crate::cmd::parser();
        let run = program.find_subcommand("run").expect("it is a command");
        let help = run.clone().render_help().to_string();
        for argument in run.get_arguments() {
            if let Some(form) = several_letters(argument) {
                assert_eq!(help.matches(&format!("({form})")).count(), 1, "{form}");
            }
        }
    }

    #[test]
    fn refusals_tell_what_is_known() {
        let program = crate::cmd::parser();
        let says = |command: &str, flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
            refusal(program.find_subcommand(command).unwrap_or(&program), &flags)
        };
        assert_eq!(
            says("run", &["-kvu"]),
            "'-kvu' is a flag of the reference that is not supported here yet; leave it out"
        );
        assert_eq!(
            says("run", &["-tgs", "-dr", "-kvu"]),
            "'-tgs', '-kvu' are flags of the reference that are not supported here yet; leave them out"
        );
        assert!(says("run", &["-dr"]).contains("asks for a download that is not supported"));
        assert_eq!(
            says("run", &["--numa"]),
            "'--numa' is not supported: memory is placed by the system; start the program under numactl"
        );
        assert!(says("run", &["-xyz"]).starts_with("unexpected argument '-xyz' found"));
        assert_eq!(
            says("inspect", &["--delete-splits"]),
            "'--delete-splits' is not supported by `inspect`; it is a flag of `merge`, `split`"
        );
        assert_eq!(
            says("", &["-m", "-ngl"]),
            "a command is missing before '-m', as in `gristmill run -m`"
        );
    }
}
