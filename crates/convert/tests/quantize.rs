//! Quantization of whole files: `golden/convert/llama/quantize` (types, bytes of every tensor, file size), and the
//! cases of real use.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gristmill_convert::ConvertError;
use gristmill_convert::quantize::{Importance, QuantizeOptions, QuantizeReport, quantize};
use gristmill_convert::recipe::{Recipe, tensor_type};
use gristmill_gguf::{Metadata, Model, TensorPlan, Value, WriteOptions, Writer};
use gristmill_quant::{F16, F32, Q4_K, TensorType};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

fn recipe(name: &str) -> &'static Recipe {
    Recipe::from_name(name).expect("it is registered")
}

fn run(options: &QuantizeOptions) -> Result<QuantizeReport, ConvertError> {
    quantize(options, &mut |_| ())
}

fn sha256(data: &[u8]) -> String {
    Sha256::digest(data)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The importance matrix of a file in the reference's GGUF form: sums of squares over counts.
fn importance(path: &Path) -> Importance {
    let model = Model::open(path).expect("the golden importance matrix opens");
    let floats = |name: String| -> Vec<f32> {
        let view = model.tensor(&name).expect("sums and counts come in pairs");
        view.data
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    };
    let sums = model
        .tensors()
        .iter()
        .filter_map(|tensor| tensor.name.strip_suffix(".in_sum2"));
    let entries = sums.map(|name| {
        let (mut values, counts) = (
            floats(format!("{name}.in_sum2")),
            floats(format!("{name}.counts")),
        );
        let row_len = values.len() / counts.len();
        for (row, count) in values.chunks_exact_mut(row_len).zip(&counts) {
            row.iter_mut()
                .for_each(|value| *value = if *count > 0.0 { *value / count } else { 1.0 });
        }
        (name.to_owned(), values)
    });
    Importance::new(entries).expect("all values are finite")
}

/// The options of a golden run, but for its importance matrix.
fn options(folder: &Path, output: &Path, run: &Json) -> QuantizeOptions {
    let recipe = recipe(run["ftype"].as_str().expect("a name"));
    let mut options = QuantizeOptions::new(folder.join("llama-f32.gguf"), output, recipe);
    let mut flags = run["flags"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|flag| flag.as_str().expect("text"));
    while let Some(flag) = flags.next() {
        let mut ty = || tensor_type(flags.next().expect("a value")).expect("a type");
        match flag {
            "--pure" => options.plan.pure = true,
            "--leave-output-tensor" => options.plan.leave_output_tensor = true,
            "--output-tensor-type" => options.plan.output_tensor_type = Some(ty()),
            "--token-embedding-type" => options.plan.token_embedding_type = Some(ty()),
            "--tensor-type" => {
                let entry = flags
                    .next()
                    .expect("a value")
                    .parse()
                    .expect("a pattern and a type");
                options.plan.tensor_types.push(entry);
            }
            "--imatrix" => {
                flags.next();
                options.importance = Some(importance(&folder.join("quantize/llama.imatrix.gguf")));
                options.metadata = imatrix_entries(&run["kv"]);
            }
            other => panic!("unknown flag {other}"),
        }
    }
    options
}

fn imatrix_entries(kv: &Json) -> Vec<(String, Value)> {
    let entries = kv
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with("quantize."));
    let entries = entries.map(|(key, value)| match value.as_u64() {
        Some(number) => (key.clone(), Value::U32(number as u32)),
        None => (key.clone(), Value::from(value.as_str().expect("text"))),
    });
    entries.collect()
}

/// Every type the run needs can be written.
fn is_possible(run: &Json) -> bool {
    let names = run["tensors"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, entry)| entry[0].as_str().expect("a name"));
    names
        .map(|name| TensorType::from_name(name).expect("a type"))
        .all(TensorType::can_encode)
}

#[test]
fn bytes_equal_the_reference() {
    let Some(folder) = gristmill_golden::folder("convert/llama") else {
        return;
    };
    let json = std::fs::read(folder.join("quantize/llama.quantize.json")).expect("it is there");
    let json: Json = serde_json::from_slice(&json).expect("it is JSON");
    let temporary = tempfile::tempdir().expect("a temporary folder can be made");
    let (mut n_files, mut n_tensors, mut n_skipped) = (0, 0, 0);
    for (index, golden) in json["runs"].as_array().expect("a list").iter().enumerate() {
        let output = temporary.path().join(format!("{index}.gguf"));
        let options = options(&folder, &output, golden);
        if golden["error"].is_string() {
            let needs = run(&options).expect_err("the reference refuses it");
            let unwritable = matches!(needs, ConvertError::NoEncoder { .. });
            assert!(
                unwritable
                    || needs
                        .to_string()
                        .starts_with(golden["error"].as_str().expect("text")),
                "{needs}"
            );
            continue;
        }
        if !is_possible(golden) {
            n_skipped += 1;
            continue;
        }
        let report = run(&options).expect("the reference writes it");
        n_tensors += compare(&output, golden, &report);
        n_files += 1;
    }
    println!("{n_files} files, {n_skipped} runs skipped");
    gristmill_golden::compared(n_tensors, "quantized tensors");
}

/// Compares a file with a golden run; returns how many tensors it has.
fn compare(output: &Path, golden: &Json, report: &QuantizeReport) -> usize {
    let what = format!("{} {}", golden["ftype"], golden["flags"]);
    let model = Model::open(output).expect("what was written can be read");
    let tensors = golden["tensors"].as_object().expect("a table");
    assert_eq!(model.tensors().len(), tensors.len(), "{what}");
    // The table is in the order of the file.
    for (view, (name, expected)) in model.views().zip(tensors) {
        assert_eq!(&view.info.name, name, "{what}");
        let ours = [view.info.ty.name().to_uppercase(), sha256(view.data)];
        assert_eq!(
            ours[0],
            expected[0].as_str().expect("a type").to_uppercase(),
            "{what} {name}"
        );
        assert_eq!(
            ours[1],
            expected[1].as_str().expect("a hash"),
            "{what} {name}: bytes differ"
        );
    }
    for (key, expected) in golden["kv"].as_object().expect("a table").iter() {
        let ours = model
            .metadata()
            .get(key)
            .unwrap_or_else(|| panic!("{what}: no {key}"));
        match expected.as_u64() {
            Some(number) => assert_eq!(*ours, Value::U32(number as u32), "{what} {key}"),
            None => assert_eq!(
                *ours,
                Value::from(expected.as_str().expect("text")),
                "{what} {key}"
            ),
        }
    }
    let size = std::fs::metadata(output).expect("it is there").len();
    assert_eq!(size, report.file_bytes, "{what}");
    // The reference's path of the importance matrix has another length, which padding may or may not hide.
    if !golden["flags"].to_string().contains("imatrix") {
        assert_eq!(size, golden["bytes"].as_u64().expect("a size"), "{what}");
    }
    tensors.len()
}

/// What a llama's metadata must have.
fn describe(metadata: &mut Metadata) {
    metadata.set("general.architecture", "llama");
    for (key, value) in [
        ("vocab_size", 40u32),
        ("context_length", 64),
        ("embedding_length", 256),
        ("feed_forward_length", 512),
        ("attention.head_count", 4),
    ] {
        metadata.set(format!("llama.{key}"), value);
    }
    metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    metadata.set("llama.block_count", 1u32);
}

/// A small model: a token embedding, an attention matrix of awkward row length, a norm.
fn small_model(folder: &Path, ty: TensorType) -> PathBuf {
    let path = folder.join(format!("small-{ty}.gguf"));
    let mut metadata = Metadata::new();
    describe(&mut metadata);
    metadata.set("general.file_type", 0u32);
    metadata.set("split.no", Value::U16(0));
    metadata.set("split.count", Value::U16(1));
    metadata.set("split.tensors.count", Value::I32(3));
    let tensors = [
        ("token_embd.weight", vec![256, 40], ty),
        (
            "blk.0.attn_q.weight",
            vec![if ty.block_len() > 1 { 256 } else { 160 }, 300],
            ty,
        ),
        ("output_norm.weight", vec![256], F32),
    ];
    let plans = tensors.map(|(name, dims, ty)| TensorPlan {
        name: name.to_owned(),
        dims,
        ty,
    });
    let mut writer = Writer::create(&path, &metadata, &plans, &WriteOptions::default())
        .expect("the folder is writable");
    for plan in &plans {
        let n: u64 = plan.dims.iter().product();
        let values: Vec<f32> = (0..n)
            .map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 300.0)
            .collect();
        let mut data = vec![0; plan.ty.row_bytes(n).expect("whole blocks") as usize];
        plan.ty
            .encode(&values, values.len(), None, &mut data)
            .expect("the buffers fit");
        writer
            .write_tensor(&plan.name, &data)
            .expect("it is its turn");
    }
    writer.finish().expect("the disk has room");
    path
}

#[test]
fn bytes_do_not_depend_on_threads_or_slabs() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let mut files = HashMap::new();
    for (n_threads, slab_bytes) in [(1, 0), (2, 0), (3, 1), (7, 5000), (2, 1 << 30)] {
        let output = folder.path().join(format!("{n_threads}-{slab_bytes}.gguf"));
        let options = QuantizeOptions {
            n_threads,
            slab_bytes,
            ..QuantizeOptions::new(&input, &output, recipe("Q4_K_M"))
        };
        run(&options).expect("it can be quantized");
        files.insert(
            sha256(&std::fs::read(&output).expect("it is there")),
            output,
        );
    }
    assert_eq!(files.len(), 1);
}

#[test]
fn what_a_report_tells() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (input, output) = (
        small_model(folder.path(), F16),
        folder.path().join("out.gguf"),
    );
    let mut options = QuantizeOptions::new(&input, &output, recipe("Q4_K_M"));
    options.plan.tensor_types = vec!["nothing=q8_0".parse().expect("a pattern and a type")];
    options.dry_run = true;
    let planned = run(&options).expect("it can be planned");
    assert!(!output.exists());
    options.dry_run = false;
    let report = run(&options).expect("it can be quantized");
    assert_eq!(planned.tensors, report.tensors);
    assert_eq!(
        report.file_bytes,
        std::fs::metadata(&output).expect("it is there").len()
    );
    // The tied embedding is the output (q6_K); rows of 160 fit no q4_K block (q5_0 instead); the norm stays.
    assert_eq!(report.bytes(), 40 * 210 + 300 * 5 * 22 + 1024);
    assert_eq!(report.source_bytes(), 40 * 512 + 300 * 320 + 1024);
    assert_eq!(report.n_elements, 40 * 256 + 300 * 160 + 256);
    let stand_ins: Vec<_> = report
        .fallbacks()
        .map(|tensor| (tensor.name.as_str(), tensor.fallback_from))
        .collect();
    assert_eq!(stand_ins, [("blk.0.attn_q.weight", Some(Q4_K))]);
    assert_eq!(
        report.histogram().values().map(|(n, _)| n).sum::<usize>(),
        3
    );
    assert_eq!(report.warnings.len(), 2, "{:?}", report.warnings);
    let model = Model::open(&output).expect("what was written can be read");
    let keys: Vec<_> = model.metadata().iter().map(|(key, _)| key).collect();
    let mut source = Metadata::new();
    describe(&mut source);
    let mut expected: Vec<_> = source.iter().map(|(key, _)| key).collect();
    expected.extend(["general.quantization_version", "general.file_type"]);
    assert_eq!(keys, expected);
    options.forbid_fallback = true;
    options.force = true;
    assert!(matches!(
        run(&options),
        Err(ConvertError::FallbackForbidden { .. })
    ));
}

/// B40: the output is an input, by its name, through a symbolic link, or through a hard link.
#[test]
fn case_b40_output_is_input() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let before = std::fs::read(&input).expect("it is there");
    let (soft, hard) = (
        folder.path().join("soft.gguf"),
        folder.path().join("hard.gguf"),
    );
    std::fs::hard_link(&input, &hard).expect("the file system has hard links");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&input, &soft).expect("the file system has symbolic links");
    for output in [&input, &soft, &hard]
        .into_iter()
        .filter(|path| path.exists())
    {
        for force in [false, true] {
            let options = QuantizeOptions {
                force,
                ..QuantizeOptions::new(&input, output, recipe("Q8_0"))
            };
            let error = run(&options).expect_err("it would destroy the source");
            assert!(
                matches!(
                    error,
                    ConvertError::Gguf(gristmill_gguf::Error::OutputIsInput { .. })
                ),
                "{error}"
            );
        }
    }
    assert_eq!(std::fs::read(&input).expect("it is there"), before);
}

/// B43: refused by default, allowed by a flag; tensors of the same type are copied; a copy is exact.
#[test]
fn case_b43_requantizing() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), Q4_K);
    let output = folder.path().join("out.gguf");
    let mut options = QuantizeOptions::new(&input, &output, recipe("Q5_K_S"));
    let error = run(&options).expect_err("the source is quantized");
    assert!(matches!(error, ConvertError::Requantize { .. }), "{error}");
    assert!(error.hint().is_some() && !output.exists());
    options.allow_requantize = true;
    assert_eq!(run(&options).expect("it was asked for").warnings.len(), 1);

    let same = folder.path().join("same.gguf");
    let mut options = QuantizeOptions::new(&input, &same, recipe("Q4_K_S"));
    options.plan.pure = true;
    run(&options).expect("nothing is quantized again");
    let copy = folder.path().join("copy.gguf");
    options = QuantizeOptions {
        recipe: None,
        output: copy.clone(),
        ..options
    };
    run(&options).expect("nothing is quantized");
    let source = Model::open(&input).expect("it opens");
    for path in [&same, &copy] {
        let model = Model::open(path).expect("it opens");
        for view in source.views() {
            assert_eq!(
                model.tensor(&view.info.name).expect("it is there").data,
                view.data
            );
        }
    }
    let copied = Model::open(&copy).expect("it opens");
    assert_eq!(
        copied.metadata().get("general.file_type"),
        Some(&Value::U32(0))
    );
}

/// A llama with one tensor, the query weights of its first layer in rows of 256.
fn write_query(path: &Path, values: &[f32]) {
    let mut metadata = Metadata::new();
    describe(&mut metadata);
    let plan = TensorPlan {
        name: QUERY.to_owned(),
        dims: vec![256, values.len() as u64 / 256],
        ty: F32,
    };
    let mut writer =
        Writer::create(path, &metadata, &[plan], &WriteOptions::default()).expect("it is writable");
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    writer.write(&bytes).expect("it fits");
    writer.finish().expect("the disk has room");
}

const QUERY: &str = "blk.0.attn_q.weight";

/// Importance data of another model is refused in the plan, where nothing has been written yet.
#[test]
fn importance_of_another_length_is_found_by_a_dry_run() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("in.gguf");
    write_query(&path, &[0.0; 512]);
    for recipe_name in ["Q4_K_M", "Q2_K"] {
        let mut options =
            QuantizeOptions::new(&path, folder.path().join("out.gguf"), recipe(recipe_name));
        options.dry_run = true;
        let weights = |n| Importance::new([(QUERY.to_owned(), vec![1.0; n])]);
        options.importance = Some(weights(256).expect("all values are finite"));
        run(&options).expect("the lengths agree");
        options.importance = Some(weights(128).expect("all values are finite"));
        let error = run(&options).expect_err("the lengths differ");
        assert!(
            matches!(
                error,
                ConvertError::ImportanceLength {
                    expected: 256,
                    found: 128,
                    ..
                }
            ),
            "{error}"
        );
    }
}

/// A NaN or an infinity in the source is refused, even where the search for a scale would pass it over.
#[test]
fn values_that_are_no_numbers() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (index, bad) in [f32::NAN, f32::INFINITY].into_iter().enumerate() {
        let path = folder.path().join(format!("{index}.gguf"));
        let mut values = vec![0.25f32; 256 * 200];
        values[40_000] = bad;
        write_query(&path, &values);
        for name in ["Q4_K_M", "Q6_K", "Q8_0"] {
            let options = QuantizeOptions::new(&path, folder.path().join("out.gguf"), recipe(name));
            let error = run(&options)
                .expect_err("there is no such weight")
                .to_string();
            assert!(
                error.contains("blk.0.attn_q.weight") && error.contains("block 40000 "),
                "{error}"
            );
        }
    }
}

/// A source with values that no scale can hold is refused, and nothing is left at the output's name.
#[test]
fn values_beyond_every_scale() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("huge.gguf");
    let mut values = vec![1.0f32; 1024];
    values[700] = 1e30;
    write_query(&path, &values);
    for name in ["Q4_K_M", "Q8_0", "F16"] {
        let output = folder.path().join("out.gguf");
        let error = run(&QuantizeOptions::new(&path, &output, recipe(name)))
            .expect_err("the scale is infinite");
        assert!(
            error
                .to_string()
                .contains("quantized data validation failed"),
            "{error}"
        );
        assert!(
            error.to_string().contains("blk.0.attn_q.weight") && error.hint().is_some(),
            "{error}"
        );
        assert_eq!(
            std::fs::read_dir(folder.path())
                .expect("it is there")
                .count(),
            1,
            "{name}: something was left"
        );
    }
}
