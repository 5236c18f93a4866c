//! Blocks left out.

use std::path::Path;

use gristmill_convert::ConvertError;
use gristmill_convert::quantize::QuantizeOptions;
use gristmill_gguf::{Metadata, Model, TensorPlan, WriteOptions, Writer};
use gristmill_quant::F32;

use crate::fixtures::{describe, importance, recipe, run};

/// A llama of four blocks, each with a matrix whose values tell its number.
fn four_blocks(path: &Path) {
    let mut metadata = Metadata::new();
    describe(&mut metadata);
    metadata.set("llama.block_count", 4u32);
    let plans: Vec<TensorPlan> = (0..4)
        .map(|block| TensorPlan {
            name: format!("blk.{block}.attn_q.weight"),
            dims: vec![256, 2],
            ty: F32,
        })
        .collect();
    let mut writer = Writer::create(path, &metadata, &plans, &WriteOptions::default())
        .expect("the folder is writable");
    for block in 0..4 {
        let values = vec![1.0 + block as f32; 512];
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value: &f32| value.to_le_bytes())
            .collect();
        writer.write(&bytes).expect("it is its turn");
    }
    writer.finish().expect("the disk has room");
}

#[test]
fn blocks_are_left_out_and_the_others_move_up() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (input, output) = (
        folder.path().join("in.gguf"),
        folder.path().join("out.gguf"),
    );
    four_blocks(&input);
    let mut options = QuantizeOptions::new(&input, &output, recipe("F32"));
    options.prune_blocks = vec![1];
    // Named as in the source.
    options.importance = Some(importance(&[("blk.3.attn_q.weight", vec![1.0; 256])]));
    let report = run(&options).expect("it can be quantized");
    let weighed_nothing = "no tensor is quantized with the importance matrix, and the metadata names it all the same (quantize.imatrix.*)";
    assert_eq!(report.warnings, [weighed_nothing]);
    let model = Model::open(&output).expect("it was just written");
    let first = |view: gristmill_gguf::TensorView<'_>| {
        f32::from_le_bytes([view.data[0], view.data[1], view.data[2], view.data[3]])
    };
    let blocks: Vec<(&str, f32)> = model
        .views()
        .map(|view| (&*view.info.name, first(view)))
        .collect();
    assert_eq!(
        blocks,
        [
            ("blk.0.attn_q.weight", 1.0),
            ("blk.1.attn_q.weight", 3.0),
            ("blk.2.attn_q.weight", 4.0)
        ]
    );
    assert_eq!(
        model.metadata().u32("llama.block_count").expect("a number"),
        Some(3)
    );
    options.force = true;
    options.prune_blocks = vec![1, 9];
    let error = run(&options).expect_err("there is no such block");
    assert!(
        matches!(
            error,
            ConvertError::NoSuchBlock {
                block: 9,
                n_blocks: 4
            }
        ),
        "{error}"
    );
    options.prune_blocks = vec![3, 2, 1, 0];
    assert!(matches!(run(&options), Err(ConvertError::NothingLeft)));
}
