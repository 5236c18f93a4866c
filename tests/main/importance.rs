//! `quantize`: importance matrices in shards, what the metadata says of them, and flags and tensors that are not there.

use gristmill_gguf::{Imatrix, ImatrixEntry, ImatrixForm, Model, WriteOptions};

use crate::fixtures::{Change, changed, small_model};
use crate::harness::Workplace;

/// The small model as `a.gguf`, and `im.gguf`, which weighs the columns of its matrices alike.
fn with_importance() -> Workplace {
    let place = Workplace::new();
    changed(&small_model(), &place.path("a.gguf"), &Change::default());
    let model = Model::open(&place.path("a.gguf")).expect("it was just written");
    let mut imatrix = Imatrix::default();
    imatrix.datasets.push("text".to_owned());
    (imatrix.n_chunks, imatrix.chunk_size) = (1, 512);
    let is_matrix = |dims: &[u64]| dims.iter().filter(|&&dim| dim > 1).count() > 1;
    for tensor in model.tensors() {
        if is_matrix(&tensor.dims) && tensor.name != "token_embd.weight" {
            let entry = ImatrixEntry::new(vec![1.0; tensor.dims[0] as usize], vec![1.0], None);
            imatrix.insert(&tensor.name, entry.expect("ones are finite"));
        }
    }
    imatrix
        .save(
            &place.path("im.gguf"),
            ImatrixForm::Gguf,
            &WriteOptions::default(),
        )
        .expect("the folder is writable");
    place
}

/// The warnings of a run that succeeds, without those about rows.
fn warned(place: &Workplace, line: &str) -> Vec<String> {
    let shown = place.run(&format!("gristmill quantize {line}"));
    assert!(shown.starts_with("exit: 0"), "{shown}");
    let warnings = shown
        .lines()
        .filter_map(|line| line.strip_prefix("warning: "));
    let warnings = warnings.filter(|line| !line.contains("fell back to another type"));
    warnings.map(str::to_owned).collect()
}

/// Only the shard that was named was read, and what it lacked was quantized without, or called damage.
#[test]
fn any_shard_of_an_importance_matrix_opens_its_set() {
    let place = with_importance();
    let split = place.run("gristmill split im.gguf im --split-max-tensors 25");
    assert!(split.starts_with("exit: 0"), "{split}");
    let shards: Vec<String> = place.files();
    let shards = shards.iter().filter(|name| name.starts_with("im-"));
    let shards: Vec<&String> = shards.collect();
    assert!(shards.len() > 2, "{shards:?}");
    for shard in &shards {
        let line = format!("--imatrix {shard} --force a.gguf b.gguf Q4_0");
        assert_eq!(warned(&place, &line), [""; 0], "{shard}");
        let model = Model::open(&place.path("b.gguf")).expect("it was just written");
        let number = model.metadata().u32("quantize.imatrix.entries_count");
        let whole = Imatrix::open(&place.path("im.gguf")).expect("it is whole");
        assert_eq!(number.expect("a number"), Some(whole.len() as u32));
    }
    // All of them are inputs.
    let (first, second) = (shards[0], shards[1]);
    let shown = place.run(&format!(
        "gristmill quantize --imatrix {first} --force a.gguf {second} Q4_0"
    ));
    assert!(
        shown.starts_with("exit: 1") && shown.contains("is the same file as the input"),
        "{shown}"
    );
}

/// The smallest size with importance data was that without data for the output, which a collector may have.
#[test]
fn the_smallest_size_with_importance_is_the_smallest() {
    let place = with_importance();
    let told = |flag: &str| {
        let shown = place.run(&format!("gristmill quantize {flag} a.gguf b.gguf"));
        let (_, smallest) = shown
            .split_once("of output.weight), for ")
            .expect("it is told");
        smallest.split(' ').next().unwrap_or_default().to_owned()
    };
    let code = |flag: &str, value: &str| {
        let line =
            format!("gristmill quantize --dry-run --imatrix im.gguf {flag} {value} a.gguf b.gguf");
        place.run(&line)[..7].to_owned()
    };
    let bits = told("--target-bpw 0.5");
    assert_eq!(code("--target-bpw", &bits), "exit: 0", "{bits}");
    let less = bits.parse::<f64>().expect("a number") - 1e-4;
    assert_eq!(
        code("--target-bpw", &format!("{less:.4}")),
        "exit: 1",
        "{bits}"
    );
    // The names of the matrix take some room.
    let bytes = told("--target-size 9KiB");
    assert_eq!(code("--target-size", &bytes), "exit: 0", "{bytes}");
    let less = bytes.parse::<u64>().expect("a number") - 448;
    assert_eq!(
        code("--target-size", &less.to_string()),
        "exit: 1",
        "{bytes}"
    );
}

/// Entries that stay, as in the reference, or that name a matrix which weighed nothing.
#[test]
fn a_matrix_that_weighed_nothing_is_told_of() {
    let place = with_importance();
    assert_eq!(
        warned(&place, "--imatrix im.gguf a.gguf f.gguf F16"),
        [
            "no tensor is quantized with the importance matrix, and the metadata names it all the same (quantize.imatrix.*)"
        ]
    );
    let report = place.run("gristmill check f.gguf --report");
    let doubt = "? imatrix.file: im.gguf; imatrix.dataset: text; but no tensor is of a type that takes importance, so none was weighted by it";
    assert!(report.replace("quantize.", "").contains(doubt), "{report}");
    assert_eq!(
        warned(&place, "--imatrix im.gguf a.gguf q.gguf Q5_0"),
        [""; 0]
    );
    let warnings = warned(&place, "--allow-requantize q.gguf r.gguf Q4_0");
    let stale = "the metadata keeps quantize.imatrix.file, quantize.imatrix.dataset, quantize.imatrix.entries_count, quantize.imatrix.chunks_count of an earlier quantization, which says nothing of this one; `gristmill edit --remove` takes entries out";
    assert!(warnings.iter().any(|line| line == stale), "{warnings:?}");
    let report = place.run("gristmill check r.gguf --report");
    let doubt = "text; quantized again without one, a file keeps what it named before";
    assert!(report.contains(doubt), "{report}");
}

/// Parts of names and flags that nothing is found for.
#[test]
fn flags_that_find_nothing_are_told_of() {
    let place = with_importance();
    let flags = "--dry-run --imatrix im.gguf";
    assert_eq!(
        warned(
            &place,
            &format!(
                "{flags} --exclude-weights nothere --exclude-weights attn_q a.gguf b.gguf F16"
            )
        )[1..],
        ["`--exclude-weights nothere` found no entry of the importance matrix: it has no effect"]
    );
    assert_eq!(
        warned(
            &place,
            &format!("{flags} --include-weights nothere --include-weights attn a.gguf b.gguf F16")
        )[1..],
        ["`--include-weights nothere` found no entry of the importance matrix: it has no effect"]
    );
    let tied = Change {
        without: Some("output.weight"),
        ..Change::default()
    };
    changed(&small_model(), &place.path("tied.gguf"), &tied);
    assert_eq!(
        warned(
            &place,
            "--dry-run --leave-output-tensor tied.gguf b.gguf Q4_0"
        ),
        [
            "`--leave-output-tensor` has no effect: there is no output.weight; the token embedding is the output, and `--token-embedding-type bf16` leaves it as it is"
        ]
    );
    let output = "--dry-run --output-tensor-type q8_0 tied.gguf b.gguf Q4_0";
    assert_eq!(warned(&place, output), [""; 0]);
    assert_eq!(
        warned(&place, &format!("--pure {output}")),
        ["`--output-tensor-type` has no effect: there is no output.weight"]
    );
}

/// A source that is incomplete was made a file that does not load, without a word.
#[test]
fn a_missing_tensor_is_told_of() {
    let place = Workplace::new();
    let faulty = Change {
        without: Some("blk.0.attn_q.weight"),
        cut: Some("blk.1.attn_k.weight"),
        ..Change::default()
    };
    changed(&small_model(), &place.path("a.gguf"), &faulty);
    assert_eq!(
        warned(&place, "--dry-run a.gguf b.gguf Q4_0"),
        [
            "the output will not load: there is no tensor \"blk.0.attn_q.weight\"; 1 more tensor is missing or has another shape"
        ]
    );
    // Nothing is missing where its block is left out.
    let pruned = warned(&place, "--dry-run --prune-layers 0,1 a.gguf b.gguf Q4_0");
    assert_eq!(pruned, [""; 0]);
}
