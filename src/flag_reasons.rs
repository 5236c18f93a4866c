//! Why flags of the reference are not supported.

/// Flags, and the reason, which follows "is not supported: ".
const REASONS: &[(&[&str], &str)] = &[
    (
        &["-C", "-Cr", "-Cb", "-Crb", "-Cd", "-Crd", "-Cbd", "-Crbd"],
        SCHEDULER,
    ),
    (
        &[
            "--cpu-mask",
            "--cpu-range",
            "--cpu-strict",
            "--prio",
            "--poll",
        ],
        SCHEDULER,
    ),
    (
        &[
            "--cpu-mask-batch",
            "--cpu-range-batch",
            "--cpu-strict-batch",
            "--prio-batch",
            "--poll-batch",
        ],
        SCHEDULER,
    ),
    (
        &["--numa"],
        "memory is placed by the system; start the program under numactl",
    ),
    (&["--rpc"], "a model runs on one machine"),
    (
        &["-lzm", "--lazy-mode"],
        "files are mapped, so that rows are read when they are needed",
    ),
    (
        &["--override-kv"],
        "`gristmill edit` changes the metadata of a file, and can undo it",
    ),
    (
        &["-cram", "--cache-ram"],
        "the cache of a run holds its one conversation whole",
    ),
    (
        &["-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"],
        "what layers with a window have dropped is computed again; --swa-full keeps it",
    ),
    (
        &["-gan", "--grp-attn-n", "-gaw", "--grp-attn-w"],
        "positions are not grouped; a longer context comes with -c",
    ),
    (
        &[
            "-bs",
            "--backend-sampling",
            "--spec-draft-backend-sampling",
            "--no-spec-draft-backend-sampling",
        ],
        "tokens are picked on the CPU",
    ),
    (
        &[
            "--image",
            "--audio",
            "--video",
            "-mm",
            "--mmproj",
            "--mmproj-auto",
            "--no-mmproj",
            "--no-mmproj-auto",
        ],
        TEXT_ALONE,
    ),
    (
        &[
            "--mmproj-offload",
            "--no-mmproj-offload",
            "--mmproj-url",
            "-mmu",
            "--image-min-tokens",
            "--image-max-tokens",
        ],
        TEXT_ALONE,
    ),
    (
        &["--server-base"],
        "the model runs in this program, and no server is asked",
    ),
    (
        &["-ptc", "--print-token-count"],
        "the line behind an answer tells its tokens",
    ),
    (
        &["--log-jsonl", "--no-log-jsonl"],
        "messages are lines of text; --json gives answers as JSON",
    ),
    (
        &["--log-prompts-dir"],
        "--verbose-prompt tells each prompt, and --log-file keeps what is told",
    ),
    (
        &["--spec-draft-p-split", "--draft-p-split"],
        "a draft is one row of tokens and does not branch",
    ),
    (
        &["--spec-synth-len", "--spec-synth-rates"],
        "drafts are compared with what the model picks, never accepted by lot",
    ),
    (
        &[
            "-cmoed",
            "--spec-draft-cpu-moe",
            "--cpu-moe-draft",
            "-ncmoed",
            "--spec-draft-n-cpu-moe",
            "--spec-draft-ncmoe",
            "--n-cpu-moe-draft",
            "-otd",
            "--spec-draft-override-tensor",
            "--override-tensor-draft",
        ],
        "no GPU backend is built in; the draft model runs on the CPU",
    ),
    (
        &["-cl", "--cache-list"],
        "`gristmill list` lists the models that were fetched",
    ),
    (&["--list-devices"], "no GPU backend is built in"),
    (
        &["--completion-bash"],
        "--help lists the flags of a command",
    ),
    (
        &["-dt", "--defrag-thold"],
        "the cache is paged and needs no defragmentation; the reference ignores it too",
    ),
    (
        &[
            "--draft",
            "--draft-n",
            "--draft-max",
            "--draft-min",
            "--draft-n-min",
        ],
        "the reference removed it; --spec-draft-n-max and --spec-draft-n-min are its names there now",
    ),
    (
        &[
            "--spec-ngram-size-n",
            "--spec-ngram-size-m",
            "--spec-ngram-min-hits",
        ],
        "the reference removed it; each kind of look-up has sizes of its own there now",
    ),
];

const SCHEDULER: &str =
    "threads are left to the system's scheduler; start the program under taskset or nice";
const TEXT_ALONE: &str = "models here read text alone";

/// Why a flag is not supported, where there is a reason.
pub fn reason(flag: &str) -> Option<&'static str> {
    let mut entries = REASONS.iter();
    let entry = entries.find(|(flags, _)| flags.contains(&flag))?;
    Some(entry.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reason of a flag that came to be supported would never be told.
    #[test]
    fn reasons_are_of_flags_that_the_reference_has() {
        for flag in REASONS.iter().flat_map(|(flags, _)| *flags) {
            assert!(crate::reference_flags::is_known(flag), "{flag}");
            let n = REASONS
                .iter()
                .filter(|(flags, _)| flags.contains(flag))
                .count();
            assert_eq!(n, 1, "{flag}");
        }
    }
}
