//! Graphs of the golden F32 models beside Transformers' logits, or the last layer of an encoder, on both backends.

use gristmill_compute::{
    Backend, BatchShape, CpuBackend, Executor, GraphBuilder, Inputs, KvLayer, PlainBackend, Plan,
    Shape, Tensor,
};
use gristmill_gguf::Model;
use gristmill_golden::{largest_difference, read_npy};
use gristmill_model::{
    ARCHITECTURES, Hyperparameters, Weights, architecture_of_config, check_tensors,
};
use gristmill_quant::F32;
use std::sync::Arc;

/// Positions per page; the golden texts of 40 tokens take several.
const PAGE_LEN: usize = 16;

#[test]
fn logits_equal_those_of_transformers() {
    let is_supported = |class: &str| architecture_of_config(class).is_some();
    let Some(checkpoints) = gristmill_golden::checkpoints(is_supported) else {
        return;
    };
    let classes = checkpoints.iter().map(|checkpoint| &checkpoint.class);
    let of_golden = classes.filter_map(|class| architecture_of_config(class));
    let covered: Vec<&str> = of_golden
        .map(|(architecture, _)| architecture.name)
        .collect();
    let mut n_compared = 0;
    for checkpoint in checkpoints {
        let name = &checkpoint.name;
        let model = Model::open(&checkpoint.converted("f32")).unwrap();
        let ids = checkpoint.token_ids.iter();
        let tokens: Vec<i32> = ids.map(|&id| id as i32).collect();
        let hidden = checkpoint.hidden().map(|path| (tokens.len(), path));
        for (n_tokens, path) in checkpoint.logits().into_iter().chain(hidden) {
            let expected = read_npy(path);
            let backends: [Arc<dyn Backend>; 2] =
                [Arc::new(PlainBackend::new()), Arc::new(CpuBackend::new(2))];
            for backend in backends {
                let label = format!("{n_tokens} tokens of {name} on {}", backend.name());
                let found = run(&model, backend, &tokens[..n_tokens]);
                let difference = largest_difference(&found, &expected);
                println!("{label}: largest difference {difference:e}");
                assert!(difference <= 1e-4, "{label}: {difference:e}");
                n_compared += 1;
            }
        }
    }
    for known in ARCHITECTURES {
        assert!(
            covered.contains(&known.name),
            "{}: no checkpoint",
            known.name
        );
    }
    gristmill_golden::compared(n_compared, "logits of graphs");
}

/// Logits of every position, in two batches, so that the second reads what the first has stored; of an encoder the last
/// layer, in one batch.
fn run(model: &Model, backend: Arc<dyn Backend>, tokens: &[i32]) -> Vec<f32> {
    let hparams = Hyperparameters::from_metadata(model.metadata()).unwrap();
    let infos = model
        .tensors()
        .iter()
        .map(|info| (info.name.as_str(), info.dims.as_slice()));
    check_tensors(&hparams, infos).unwrap();
    let upload = |data: &[u8], dims: &[usize]| {
        let shape = Shape::new(dims).unwrap();
        let buffer = backend.allocate(shape.n_elements() * 4).unwrap();
        backend.write(buffer, 0, data).unwrap();
        Tensor {
            device: 0,
            buffer,
            offset: 0,
            ty: F32,
            shape,
        }
    };
    let weights = Weights::bind(&hparams, |spec| {
        let view = model.tensor(&spec.name)?;
        let dims: Vec<usize> = spec.dims.iter().map(|&extent| extent as usize).collect();
        Some(upload(view.data, &dims))
    })
    .unwrap();
    let n_pages = tokens.len().div_ceil(PAGE_LEN);
    let cache = |layer: &gristmill_model::LayerHyperparameters| KvLayer {
        k: upload(
            &[],
            &[hparams.key_length, PAGE_LEN, layer.n_head_kv, n_pages],
        ),
        v: upload(
            &[],
            &[hparams.value_length, PAGE_LEN, layer.n_head_kv, n_pages],
        ),
        page_len: PAGE_LEN,
        table: 0,
    };
    let caches: Vec<KvLayer> = hparams.layers.iter().map(cache).collect();
    let mut executor = Executor::new(vec![backend.clone()]);
    let mut logits = Vec::new();
    let build = match hparams.causal {
        true => gristmill_model::build,
        false => gristmill_model::build_hidden,
    };
    let end = tokens.len();
    let middle = if hparams.causal { end / 2 } else { end };
    for batch in [0..middle, middle..end] {
        if batch.is_empty() {
            continue;
        }
        let n_tokens = batch.len();
        let shape = BatchShape {
            n_tokens,
            n_outputs: n_tokens,
            n_sequences: 1,
            max_pages: n_pages,
        };
        let mut graph = GraphBuilder::new(shape);
        let output = build(&hparams, &weights, &caches, tokens.len(), &mut graph).unwrap();
        let plan = Plan::new(&graph.finish(&[output]).unwrap(), executor.devices()).unwrap();
        let positions: Vec<i32> = batch.clone().map(|position| position as i32).collect();
        let counting = |n: usize| (0..n as i32).collect::<Vec<_>>();
        let inputs = Inputs {
            tokens: &tokens[batch],
            positions: &positions,
            slots: &positions,
            sequences: &vec![0; n_tokens],
            page_table: &counting(n_pages),
            output_rows: &counting(n_tokens),
        };
        executor.run(&plan, &inputs).unwrap();
        logits.extend_from_slice(executor.output(0));
    }
    logits
}
