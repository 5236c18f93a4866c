//! Case B26: weights in 8 bits with scales beside them, and the schemes that are none of these.

use crate::fixture::{Fixture, Tensor};
use gristmill_convert::{ConvertError, ConvertOptions, OutputType, convert};
use gristmill_gguf::Model;
use safetensors::Dtype;
use serde_json::{Value, json};

/// The number that a byte of E4M3 stands for, by its definition.
fn e4m3(byte: u8) -> f32 {
    let sign = if byte < 0x80 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    match exponent {
        0 => sign * mantissa / 8.0 * 2f32.powi(-6),
        _ => sign * (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    }
}

/// Bytes of all kinds but the two that are no numbers.
fn byte(index: usize) -> u8 {
    let byte = (index * 7 + index / 251) as u8;
    if byte & 0x7f == 0x7f { 0x40 } else { byte }
}

fn scale(index: usize) -> f32 {
    0.001 * (index + 1) as f32
}

fn floats(shape: &[usize], values: impl Iterator<Item = f32>) -> Tensor {
    let bytes = values.flat_map(f32::to_le_bytes).collect();
    (Dtype::F32, shape.to_vec(), bytes)
}

/// How a test lays out the scales of a matrix of so many rows and columns: their shape, and the one of an element.
type Layout<'a> = &'a dyn Fn(usize, usize) -> (Vec<usize>, Box<dyn Fn(usize, usize) -> usize>);

/// Two checkpoints: one with matrices of 8 bits and scales, and one with the numbers that these stand for. The feed-forward
/// part is 300 wide, so that blocks of 128 do not divide it.
fn both(
    scheme: Value,
    suffix: &str,
    (dtype, number): (Dtype, fn(u8) -> f32),
    layout: Layout,
) -> (Fixture, Fixture) {
    let (mut scaled, mut plain) = (Fixture::new(), Fixture::new());
    scaled.config["quantization_config"] = scheme;
    for fixture in [&mut scaled, &mut plain] {
        fixture.config["intermediate_size"] = json!(300);
    }
    let names: Vec<String> = scaled.tensors.keys().cloned().collect();
    for name in names.iter().filter(|name| name.contains("_proj.")) {
        let width = |n: usize| if n == 512 { 300 } else { n };
        let shape: Vec<usize> = scaled.tensors[name].1.iter().map(|&n| width(n)).collect();
        let (rows, columns) = (shape[0], shape[1]);
        let (scales, scale_of) = layout(rows, columns);
        let numbers = (0..rows * columns)
            .map(|index| number(byte(index)) * scale(scale_of(index / columns, index % columns)));
        plain.tensors.insert(name.clone(), floats(&shape, numbers));
        let bytes = (0..rows * columns).map(byte).collect();
        scaled.tensors.insert(name.clone(), (dtype, shape, bytes));
        let n_scales = scales.iter().product();
        let values = floats(&scales, (0..n_scales).map(scale));
        scaled.tensors.insert(format!("{name}{suffix}"), values);
    }
    // How activations are quantized is nothing that a file can say.
    let unused = floats(&[1], [1.0].into_iter());
    let name = "model.layers.0.mlp.up_proj.input_scale".to_owned();
    scaled.tensors.insert(name, unused);
    (scaled, plain)
}

/// Converts both, sharded and not, and compares all tensors.
fn assert_same((scaled, plain): (Fixture, Fixture)) {
    let (expected, _keep) = plain.write().converted("f32");
    let expected = Model::open(&expected.path).unwrap();
    for sharded in [false, true] {
        if sharded {
            std::fs::remove_file(scaled.path("model.safetensors")).unwrap();
            scaled.write_sharded();
        } else {
            scaled.write();
        }
        let (report, _keep) = scaled.converted("f32");
        assert_eq!(report.unknown_tensors, [""; 0]);
        assert_eq!(report.left_out_tensors.len(), 1);
        let found = Model::open(&report.path).unwrap();
        assert_eq!(found.tensors().len(), expected.tensors().len());
        for info in expected.tensors() {
            let [one, other] = [&expected, &found].map(|model| model.tensor(&info.name).unwrap());
            assert!(one.data == other.data, "{}", info.name);
        }
    }
}

const BLOCKS: Layout = &|rows, columns| {
    let grid = vec![rows.div_ceil(128), columns.div_ceil(128)];
    let n = grid[1];
    (
        grid,
        Box::new(move |row, column| row / 128 * n + column / 128),
    )
};

#[test]
fn b26_every_block_of_eight_bits_has_its_scale() {
    let scheme = json!({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]});
    assert_same(both(scheme, "_scale_inv", (Dtype::F8_E4M3, e4m3), BLOCKS));
}

/// Weights of 8 bits stay so where that is asked for: the bytes are those of a conversion to Q8_0, or F16 where rows of 300
/// are no whole blocks, and all others have the type that was named.
#[test]
fn fp8_may_become_q8_0() {
    let scheme = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
    let (scaled, plain) = both(scheme, "_scale_inv", (Dtype::F8_E4M3, e4m3), BLOCKS);
    let (expected, _keep) = plain.write().converted("q8_0");
    let (others, _keep_too) = plain.converted("bf16");
    let out = tempfile::tempdir().unwrap();
    let options = ConvertOptions {
        output: Some(out.path().join("a.gguf")),
        output_type: OutputType::parse("bf16").unwrap(),
        fp8_as_q8: true,
        ..ConvertOptions::new(scaled.write().folder.path())
    };
    let report = convert(&options, &mut |_| {}).unwrap();
    let [found, expected, others] =
        [&report, &expected, &others].map(|report| Model::open(&report.path).unwrap());
    let mut types = std::collections::BTreeSet::new();
    for info in found.tensors() {
        let was_fp8 = [
            "attn_q.",
            "attn_k.",
            "attn_v.",
            "attn_output.",
            "ffn_gate.",
            "ffn_up.",
            "ffn_down.",
        ];
        let was_fp8 = was_fp8.iter().any(|part| info.name.contains(part));
        let expected = if was_fp8 { &expected } else { &others };
        let expected = expected.tensor(&info.name).unwrap();
        assert_eq!(info.ty, expected.info.ty, "{}", info.name);
        assert!(
            found.tensor(&info.name).unwrap().data == expected.data,
            "{}",
            info.name
        );
        types.insert((was_fp8, info.ty.to_string()));
    }
    let types: Vec<(bool, &str)> = types.iter().map(|(was, ty)| (*was, ty.as_str())).collect();
    assert_eq!(
        types,
        [
            (false, "bf16"),
            (false, "f32"),
            (true, "f16"),
            (true, "q8_0")
        ]
    );
    assert_eq!(found.metadata().u32("general.file_type").unwrap(), Some(32));
}

#[test]
fn b26_rows_or_a_whole_matrix_share_a_scale() {
    let weights = |strategy: &str, ty: &str| {
        json!({"quant_method": "compressed-tensors", "format": format!("{ty}-quantized"), "config_groups": {"group_0":
            {"targets": ["Linear"], "weights": {"num_bits": 8, "type": ty, "strategy": strategy, "symmetric": true}}}})
    };
    let rows: Layout = &|rows, _| (vec![rows, 1], Box::new(|row, _| row));
    let scheme = weights("channel", "float");
    assert_same(both(scheme, "_scale", (Dtype::F8_E4M3, e4m3), rows));
    let int8: fn(u8) -> f32 = |byte| f32::from(byte as i8);
    assert_same(both(
        weights("channel", "int"),
        "_scale",
        (Dtype::I8, int8),
        rows,
    ));
    let whole: Layout = &|_, _| (vec![], Box::new(|_, _| 0));
    let scheme = weights("tensor", "float");
    assert_same(both(scheme, "_scale", (Dtype::F8_E4M3, e4m3), whole));
}

#[test]
fn b26_scales_that_are_missing_or_do_not_fit_are_named() {
    let scheme = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
    let (mut scaled, _) = both(scheme, "_scale_inv", (Dtype::F8_E4M3, e4m3), BLOCKS);
    let name = "model.layers.1.mlp.up_proj.weight_scale_inv";
    let kept = scaled
        .tensors
        .insert(name.to_owned(), floats(&[2, 2], (0..4).map(scale)));
    let file = scaled.path("model.safetensors").display().to_string();
    assert_eq!(
        scaled.write().refused("f32").to_string(),
        format!("{file}: tensor `{name}` has shape [2, 2], expected [3, 2]")
    );
    scaled.tensors.remove(name);
    assert_eq!(
        scaled.write().refused("f32").to_string(),
        format!(
            "{file}: tensor `model.layers.1.mlp.up_proj.weight` has elements of type F8_E4M3 without scales, which \
             cannot be converted"
        )
    );
    scaled.tensors.insert(name.to_owned(), kept.unwrap());
    // Numbers beyond f16 are found behind the scale.
    let large = floats(&[2, 2], [1.0, 1000.0, 1.0, 1.0].into_iter());
    let name = "model.layers.0.self_attn.q_proj.weight_scale_inv";
    scaled.tensors.insert(name.to_owned(), large);
    let error = scaled.write().refused("f16").to_string();
    assert!(
        error.contains("`blk.0.attn_q.weight`: ") && error.contains("exceed the range of f16"),
        "{error}"
    );
}

#[test]
fn b26_other_schemes_are_refused_by_name() {
    let packed = json!({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0":
        {"weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}}}});
    for (scheme, named) in [
        (
            json!({"quant_method": "gptq", "bits": 4}),
            "quant_method gptq, bits 4",
        ),
        (
            json!({"quant_method": "fp8", "weight_block_size": [128, 0]}),
            "quant_method fp8",
        ),
        (
            packed,
            "quant_method compressed-tensors, format pack-quantized",
        ),
        (
            json!({"quant_method": "quanto", "weights": "int8"}),
            "quant_method quanto",
        ),
        (
            json!({"quant_method": "bitsandbytes", "load_in_4bit": true}),
            "quant_method bitsandbytes, load_in_4bit true",
        ),
        (json!({}), "by an unnamed method"),
    ] {
        let mut fixture = Fixture::new();
        fixture.config["quantization_config"] = scheme;
        match fixture.write().refused("auto") {
            ConvertError::QuantizedSource { scheme, .. } => assert_eq!(scheme, named),
            other => panic!("{other}"),
        }
    }
    let fixture = Fixture::new();
    let beside = r#"{"quantization": {"quant_algo": "NVFP4"}}"#;
    std::fs::write(fixture.path("hf_quant_config.json"), beside).unwrap();
    let error = fixture.write().refused("auto").to_string();
    assert!(
        error.ends_with("the checkpoint is quantized already (quant_algo NVFP4)"),
        "{error}"
    );
    // A quantized tensor without a word about it.
    let mut fixture = Fixture::new();
    let name = "model.layers.1.mlp.up_proj.weight";
    let (_, shape, _) = fixture.tensors[name].clone();
    let bytes = vec![0; shape.iter().product()];
    fixture
        .tensors
        .insert(name.to_owned(), (Dtype::F8_E4M3, shape, bytes));
    let error = fixture.write().refused("auto").to_string();
    assert!(
        error.contains(
            "`model.layers.1.mlp.up_proj.weight` has elements of type F8_E4M3 without scales"
        ),
        "{error}"
    );
}
