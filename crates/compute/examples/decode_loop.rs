//! Times prefill and decode of a random model in the shape of SmolLM2-135M, without a tokenizer or a file:
//! what remains is the graph, the executor and the kernels.
//!
//! ```text
//! cargo run --release -p gristmill-compute --example decode_loop -- [threads] [type] [prompt] [decoded]
//! ```

use gristmill_compute::{
    Activation, Attention, Backend, BatchShape, ComputeError, CpuBackend, Executor, Graph,
    GraphBuilder, Inputs, KvLayer, Plan, Rope, RopeStyle, Shape, Tensor,
};
use gristmill_quant::{F16, F32, TensorType};
use std::sync::Arc;
use std::time::Instant;

const N_LAYER: usize = 30;
const N_EMBD: usize = 576;
const N_FF: usize = 1536;
const N_HEAD: usize = 9;
const N_HEAD_KV: usize = 3;
const HEAD_DIM: usize = 64;
const N_VOCAB: usize = 49152;
const PAGE_LEN: usize = 32;
const N_PAGES: usize = 64;
const EPS: f32 = 1e-5;

struct Layer {
    norms: [Tensor; 2],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    cache: KvLayer,
}

struct Model {
    embeddings: Tensor,
    layers: Vec<Layer>,
    output_norm: Tensor,
}

/// Gives random matrices to the backend.
struct Loader {
    backend: Arc<CpuBackend>,
    ty: TensorType,
    state: u32,
}

impl Loader {
    fn matrix(&mut self, n_in: usize, n_out: usize) -> Tensor {
        let size = (3.0 / n_in as f32).sqrt();
        let x: Vec<f32> = (0..n_in * n_out)
            .map(|_| {
                self.state = self
                    .state
                    .wrapping_mul(1_664_525)
                    .wrapping_add(1_013_904_223);
                (self.state as f32 / (1u32 << 31) as f32 - 1.0) * size
            })
            .collect();
        self.tensor(self.ty, &[n_in, n_out], &x)
    }

    fn tensor(&self, ty: TensorType, dims: &[usize], x: &[f32]) -> Tensor {
        let shape = Shape::new(dims).expect("small");
        let row_bytes = ty.row_bytes(dims[0] as u64).expect("whole blocks") as usize;
        let mut bytes = vec![0; row_bytes * shape.n_rows()];
        ty.encode(x, dims[0], None, &mut bytes).expect("encodes");
        let buffer = self.backend.import(Arc::new(bytes)).expect("memory");
        Tensor {
            device: 0,
            buffer,
            offset: 0,
            ty,
            shape,
        }
    }

    fn norm(&self) -> Tensor {
        self.tensor(F32, &[N_EMBD], &[1.0; N_EMBD])
    }

    fn cache(&self) -> KvLayer {
        let half = || {
            let shape = Shape::new(&[HEAD_DIM, PAGE_LEN, N_HEAD_KV, N_PAGES]).expect("small");
            let buffer = self
                .backend
                .allocate(shape.n_elements() * 2)
                .expect("memory");
            Tensor {
                device: 0,
                buffer,
                offset: 0,
                ty: F16,
                shape,
            }
        };
        KvLayer {
            k: half(),
            v: half(),
            page_len: PAGE_LEN,
            table: 0,
        }
    }

    fn model(&mut self) -> Model {
        let layers = (0..N_LAYER).map(|_| Layer {
            norms: [self.norm(), self.norm()],
            q: self.matrix(N_EMBD, N_HEAD * HEAD_DIM),
            k: self.matrix(N_EMBD, N_HEAD_KV * HEAD_DIM),
            v: self.matrix(N_EMBD, N_HEAD_KV * HEAD_DIM),
            output: self.matrix(N_HEAD * HEAD_DIM, N_EMBD),
            gate: self.matrix(N_EMBD, N_FF),
            up: self.matrix(N_EMBD, N_FF),
            down: self.matrix(N_FF, N_EMBD),
            cache: self.cache(),
        });
        let layers = layers.collect();
        Model {
            layers,
            embeddings: self.matrix(N_EMBD, N_VOCAB),
            output_norm: self.norm(),
        }
    }
}

fn graph(model: &Model, batch: BatchShape) -> Result<Graph, ComputeError> {
    let (style, factors, yarn) = (RopeStyle::Normal, None, None);
    let (freq_base, freq_scale, attn_factor) = (100_000.0, 1.0, 1.0);
    let rope = Rope {
        style,
        n_dims: HEAD_DIM,
        freq_base,
        freq_scale,
        yarn,
        factors,
        attn_factor,
    };
    let attention = Attention {
        n_head: N_HEAD,
        n_head_kv: N_HEAD_KV,
        key_dim: HEAD_DIM,
        value_dim: HEAD_DIM,
        scale: 0.125,
        scales_queries: false,
        softcap: None,
        window: None,
        causal: true,
    };
    let mut g = GraphBuilder::new(batch);
    let mut x = g.embed(&model.embeddings);
    for (index, layer) in model.layers.iter().enumerate() {
        let normed = g.rms_norm(x, Some(&layer.norms[0]), EPS);
        let mut heads = |weight, n_head| -> Result<_, ComputeError> {
            let projected = g.matmul(weight, normed);
            Ok(g.reshape(projected, Shape::new(&[HEAD_DIM, n_head, batch.n_tokens])?))
        };
        let (q, k, v) = (
            heads(&layer.q, N_HEAD)?,
            heads(&layer.k, N_HEAD_KV)?,
            heads(&layer.v, N_HEAD_KV)?,
        );
        let (q, k) = (g.rope(q, &rope), g.rope(k, &rope));
        g.store_kv(&layer.cache, k, v);
        let mut attended = g.attention(&layer.cache, q, &attention);
        if index + 1 == N_LAYER {
            attended = g.select_outputs(attended);
            x = g.select_outputs(x);
        }
        let attended = g.matmul(&layer.output, attended);
        x = g.add(x, attended);
        let normed = g.rms_norm(x, Some(&layer.norms[1]), EPS);
        let (gate, up) = (g.matmul(&layer.gate, normed), g.matmul(&layer.up, normed));
        let gated = g.glu(gate, up, Activation::Silu);
        let fed = g.matmul(&layer.down, gated);
        x = g.add(x, fed);
    }
    x = g.rms_norm(x, Some(&model.output_norm), EPS);
    x = g.matmul(&model.embeddings, x);
    g.finish(&[x])
}

/// Runs tokens at the positions from `start` on.
fn step(
    executor: &mut Executor,
    plan: &Plan,
    start: usize,
    n_tokens: usize,
) -> Result<(), ComputeError> {
    let numbers = |f: fn(usize) -> i32| (start..start + n_tokens).map(f).collect::<Vec<_>>();
    let pages: Vec<i32> = (0..N_PAGES as i32).collect();
    let positions = numbers(|p| p as i32);
    let inputs = Inputs {
        tokens: &numbers(|p| (p * 7919 % N_VOCAB) as i32),
        positions: &positions,
        slots: &positions,
        sequences: &numbers(|_| 0),
        page_table: &pages,
        output_rows: &[n_tokens as i32 - 1],
    };
    executor.run(plan, &inputs)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let n_threads = arguments.next().map_or(Ok(2), |n| n.parse())?;
    let name = arguments.next().unwrap_or_else(|| "q4_1".to_owned());
    let n_prompt: usize = arguments.next().map_or(Ok(512), |n| n.parse())?;
    let n_decoded: usize = arguments.next().map_or(Ok(64), |n| n.parse())?;
    if n_prompt.max(1) + n_decoded > PAGE_LEN * N_PAGES {
        return Err("prompt and decoded tokens exceed the cache".into());
    }
    let ty = TensorType::from_name(&name).ok_or("unknown type")?;
    let backend = Arc::new(CpuBackend::new(n_threads));
    let mut loader = Loader {
        backend: Arc::clone(&backend),
        ty,
        state: 1,
    };
    let model = loader.model();
    let devices: Vec<Arc<dyn Backend>> = vec![backend];
    let batch = |n_tokens| BatchShape {
        n_tokens,
        n_outputs: 1,
        n_sequences: 1,
        max_pages: N_PAGES,
    };
    let started = Instant::now();
    let prefill = Plan::new(&graph(&model, batch(n_prompt.max(1)))?, &devices)?;
    let decode = Plan::new(&graph(&model, batch(1))?, &devices)?;
    println!(
        "two graphs and plans: {:.3} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
    println!(
        "arenas: {} and {} bytes",
        prefill.arena_bytes(0),
        decode.arena_bytes(0)
    );
    let mut executor = Executor::new(devices);
    executor.prepare(&prefill)?;
    step(&mut executor, &decode, 0, 1)?;
    for _ in 0..3 {
        let started = Instant::now();
        step(&mut executor, &prefill, 0, n_prompt.max(1))?;
        let seconds = started.elapsed().as_secs_f64();
        print!(
            "prefill {n_prompt}: {:.1} tokens/s; ",
            n_prompt as f64 / seconds
        );
        let started = Instant::now();
        (0..n_decoded).try_for_each(|i| step(&mut executor, &decode, n_prompt + i, 1))?;
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "decode {n_decoded}: {:.1} tokens/s",
            n_decoded as f64 / seconds
        );
    }
    Ok(())
}
