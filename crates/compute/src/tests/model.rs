//! Small random models in the four block shapes that differ most, with their layers on chosen devices.

use super::{Random, shape, tensor, zeroed};
use crate::{
    Activation, Attention, Backend, BatchShape, Graph, GraphBuilder, KvLayer, Rope, RopeStyle,
    Route, Tensor, Value, Yarn,
};
use gristmill_quant::{F32, TensorType};
use std::sync::Arc;

pub const N_LAYER: usize = 4;
pub const N_VOCAB: usize = 96;
pub const PAGE_LEN: usize = 4;
pub const N_PAGES: usize = 12;
const N_EMBD: usize = 256;
const N_FF: usize = 512;
const N_EXPERT: usize = 3;
const N_FF_EXPERT: usize = 256;
const HEAD_DIM: usize = 64;
const N_HEAD: usize = 4;
const N_HEAD_KV: usize = 2;
const N_QKV: usize = (N_HEAD + 2 * N_HEAD_KV) * HEAD_DIM;
const N_POSITIONS: usize = PAGE_LEN * N_PAGES;
const EPS: f32 = 1e-6;

/// The block shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    /// Pre-norms, SwiGLU, rotation of neighbours with divisors.
    Llama,
    /// Norms before and after, norms per head, GeGLU, rotation of halves, windows, soft caps.
    Gemma,
    /// As `Llama`, the feed-forward part of experts, some taken and one shared.
    Experts,
    /// Layer norms with biases, learned positions, one matrix for queries, keys and values, no gate.
    Gpt,
}

struct Layer {
    device: usize,
    attn_norm: Tensor,
    norm_bias: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    qkv: Tensor,
    qkv_bias: Tensor,
    q_bias: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    attn_output: Tensor,
    post_attn_norm: Tensor,
    ffn_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    post_ffn_norm: Tensor,
    cache: KvLayer,
    factors: Tensor,
    experts: Option<Experts>,
}

/// A feed-forward part of experts; the shared one has the matrices of the layer.
struct Experts {
    router: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

/// Weights and caches.
pub struct Model {
    family: Family,
    embeddings: Tensor,
    positions: Tensor,
    layers: Vec<Layer>,
    output_norm: Tensor,
    output: Tensor,
}

/// Types that a weight matrix can have.
pub fn matrix_types() -> Vec<TensorType> {
    TensorType::all()
        .filter(|ty| ty.can_decode() && ty.can_encode() && ty.activation().is_some())
        .collect()
}

impl Model {
    /// The same weights whatever the devices; matrices and caches take their types in turn.
    pub fn new(
        family: Family,
        devices: &[Arc<dyn Backend>],
        types: &[TensorType],
        cache_types: &[TensorType],
        device_of: impl Fn(usize) -> usize,
    ) -> Self {
        let mut random = Random(42);
        let mut next_type = types.iter().cycle();
        let mut matrix = |device: usize, n_in: usize, n_out: usize, random: &mut Random| {
            let ty = *next_type.next().expect("types");
            let x = random.floats(n_in * n_out, (3.0 / n_in as f32).sqrt());
            tensor(&*devices[device], device, ty, &[n_in, n_out], &x)
        };
        let vector = |device: usize, n: usize, base: f32, random: &mut Random| {
            let x: Vec<f32> = random
                .floats(n, 0.3)
                .into_iter()
                .map(|x| x + base)
                .collect();
            tensor(&*devices[device], device, F32, &[n], &x)
        };
        let cache = |device: usize, ty| {
            zeroed(
                &*devices[device],
                device,
                ty,
                &[HEAD_DIM, PAGE_LEN, N_HEAD_KV, N_PAGES],
            )
            .expect("small")
        };
        let stack = |ty, device: usize, n_in: usize, n_out: usize, random: &mut Random| {
            let x = random.floats(n_in * n_out * N_EXPERT, (3.0 / n_in as f32).sqrt());
            tensor(&*devices[device], device, ty, &[n_in, n_out, N_EXPERT], &x)
        };
        let experts = |index: usize, device: usize, random: &mut Random| {
            let ty = |place: usize| types[(index * 3 + place) % types.len()];
            let router = random.floats(N_EMBD * N_EXPERT, 1.0);
            let backend = &*devices[device];
            Experts {
                router: tensor(backend, device, F32, &[N_EMBD, N_EXPERT], &router),
                gate: stack(ty(0), device, N_EMBD, N_FF_EXPERT, random),
                up: stack(ty(1), device, N_EMBD, N_FF_EXPERT, random),
                down: stack(ty(2), device, N_FF_EXPERT, N_EMBD, random),
            }
        };
        // Eight matrices to a layer, so that every type has one; of experts three.
        let n_layers = match family {
            Family::Experts => types.len().div_ceil(3).max(N_LAYER),
            _ => types.len().div_ceil(8).max(N_LAYER),
        };
        let layers = (0..n_layers).map(|index| {
            let device = device_of(index);
            let random = &mut random;
            let kv_type = cache_types[index % cache_types.len()];
            Layer {
                device,
                attn_norm: vector(device, N_EMBD, 1.0, random),
                norm_bias: vector(device, N_EMBD, 0.0, random),
                q: matrix(device, N_EMBD, N_HEAD * HEAD_DIM, random),
                k: matrix(device, N_EMBD, N_HEAD_KV * HEAD_DIM, random),
                v: matrix(device, N_EMBD, N_HEAD_KV * HEAD_DIM, random),
                qkv: matrix(device, N_EMBD, N_QKV, random),
                qkv_bias: vector(device, N_QKV, 0.0, random),
                q_bias: vector(device, N_HEAD * HEAD_DIM, 0.0, random),
                q_norm: vector(device, HEAD_DIM, 1.0, random),
                k_norm: vector(device, HEAD_DIM, 1.0, random),
                attn_output: matrix(device, N_HEAD * HEAD_DIM, N_EMBD, random),
                post_attn_norm: vector(device, N_EMBD, 1.0, random),
                ffn_norm: vector(device, N_EMBD, 1.0, random),
                gate: matrix(device, N_EMBD, N_FF, random),
                up: matrix(device, N_EMBD, N_FF, random),
                down: matrix(device, N_FF, N_EMBD, random),
                post_ffn_norm: vector(device, N_EMBD, 1.0, random),
                cache: KvLayer {
                    k: cache(device, kv_type),
                    v: cache(device, kv_type),
                    page_len: PAGE_LEN,
                    table: 0,
                },
                factors: vector(device, HEAD_DIM / 2, 2.0, random),
                experts: (family == Family::Experts).then(|| experts(index, device, random)),
            }
        });
        let layers = layers.collect();
        Self {
            family,
            layers,
            embeddings: matrix(0, N_EMBD, N_VOCAB, &mut random),
            positions: matrix(0, N_EMBD, N_POSITIONS, &mut random),
            output_norm: vector(0, N_EMBD, 1.0, &mut random),
            output: matrix(0, N_EMBD, N_VOCAB, &mut random),
        }
    }

    /// Number of layers.
    pub fn n_layers(&self) -> usize {
        self.layers.len()
    }

    /// Logits `[N_VOCAB, n_outputs]`.
    pub fn graph(&self, batch: BatchShape) -> Graph {
        let mut graph = GraphBuilder::new(batch);
        let g = &mut graph;
        let mut x = g.embed(&self.embeddings);
        let embedded = x;
        match self.family {
            Family::Llama | Family::Experts => {}
            Family::Gemma => x = g.scale(x, (N_EMBD as f32).sqrt()),
            Family::Gpt => {
                let positions = g.embed_positions(&self.positions);
                x = g.add(x, positions);
            }
        }
        for (index, layer) in self.layers.iter().enumerate() {
            g.place(layer.device);
            x = self.layer(g, index, layer, x, embedded);
        }
        g.place(0);
        x = g.rms_norm(x, Some(&self.output_norm), EPS);
        x = g.matmul(&self.output, x);
        if self.family == Family::Gemma {
            x = g.softcap(x, 30.0);
        }
        graph.finish(&[x]).expect("a right graph")
    }

    fn layer(
        &self,
        g: &mut GraphBuilder,
        index: usize,
        layer: &Layer,
        mut x: Value,
        mut embedded: Value,
    ) -> Value {
        let gemma = self.family == Family::Gemma;
        let normed = self.norm(g, layer, &layer.attn_norm, x);
        let mut attended = self.attention(g, index, layer, normed);
        if index == self.layers.len() - 1 {
            attended = g.select_outputs(attended);
            x = g.select_outputs(x);
            if self.family == Family::Experts {
                embedded = g.select_outputs(embedded);
            }
        }
        attended = g.matmul(&layer.attn_output, attended);
        if gemma {
            attended = g.rms_norm(attended, Some(&layer.post_attn_norm), EPS);
        }
        x = g.add(x, attended);
        let normed = self.norm(g, layer, &layer.ffn_norm, x);
        let up = g.matmul(&layer.up, normed);
        let gated = match self.family {
            Family::Gpt => g.activate(up, Activation::GeluTanh),
            Family::Llama | Family::Experts => {
                let gate = g.matmul(&layer.gate, normed);
                g.glu(gate, up, Activation::Silu)
            }
            Family::Gemma => {
                let gate = g.matmul(&layer.gate, normed);
                g.glu(gate, up, Activation::GeluTanh)
            }
        };
        let mut fed = g.matmul(&layer.down, gated);
        if gemma {
            fed = g.rms_norm(fed, Some(&layer.post_ffn_norm), EPS);
        }
        if let Some(experts) = &layer.experts {
            // Routed by what no rounding touches: a turned choice is another model.
            let logits = g.matmul(&experts.router, embedded);
            let routed = self.routed(g, index, experts, normed, logits);
            fed = g.add(fed, routed);
        }
        g.add(x, fed)
    }

    fn routed(
        &self,
        g: &mut GraphBuilder,
        index: usize,
        experts: &Experts,
        x: Value,
        logits: Value,
    ) -> Value {
        let route = Route {
            n_used: 2,
            normalized: index.is_multiple_of(2),
            scale: 0.9,
        };
        let routes = g.route(logits, &route);
        let gate = g.expert_matmul(&experts.gate, x, routes);
        let up = g.expert_matmul(&experts.up, x, routes);
        let active = g.glu(gate, up, Activation::Silu);
        let down = g.expert_matmul(&experts.down, active, routes);
        g.combine(down, routes)
    }

    fn norm(&self, g: &mut GraphBuilder, layer: &Layer, weight: &Tensor, x: Value) -> Value {
        match self.family {
            Family::Gpt => g.layer_norm(x, weight, Some(&layer.norm_bias), EPS),
            Family::Llama | Family::Experts | Family::Gemma => g.rms_norm(x, Some(weight), EPS),
        }
    }

    /// Queries, keys and values, which `Gpt` has in one matrix and one vector.
    fn projections(&self, g: &mut GraphBuilder, layer: &Layer, x: Value) -> [Value; 3] {
        if self.family != Family::Gpt {
            let q = g.matmul(&layer.q, x);
            let q = g.add_row(q, &layer.q_bias);
            return [q, g.matmul(&layer.k, x), g.matmul(&layer.v, x)];
        }
        let (keys, values) = (N_HEAD * HEAD_DIM, (N_HEAD + N_HEAD_KV) * HEAD_DIM);
        [0..keys, keys..values, values..N_QKV].map(|part| {
            let product = g.matmul(&layer.qkv.rows(part.clone()).expect("inside"), x);
            g.add_row(product, &layer.qkv_bias.elements(part).expect("inside"))
        })
    }

    fn attention(&self, g: &mut GraphBuilder, index: usize, layer: &Layer, x: Value) -> Value {
        let gemma = self.family == Family::Gemma;
        let n_tokens = g.batch().n_tokens;
        let windowed = gemma && index.is_multiple_of(2);
        let [q, k, v] = self.projections(g, layer, x);
        let [q, k] =
            [(q, N_HEAD, &layer.q_norm), (k, N_HEAD_KV, &layer.k_norm)].map(|(x, n_head, norm)| {
                let x = g.reshape(x, shape(&[HEAD_DIM, n_head, n_tokens]));
                let x = if gemma {
                    g.rms_norm(x, Some(norm), EPS)
                } else {
                    x
                };
                if self.family == Family::Gpt {
                    x
                } else {
                    g.rope(x, &self.rope(layer, windowed))
                }
            });
        g.store_kv(&layer.cache, k, v);
        let attention = Attention {
            n_head: N_HEAD,
            n_head_kv: N_HEAD_KV,
            key_dim: HEAD_DIM,
            value_dim: HEAD_DIM,
            scale: (HEAD_DIM as f32).powf(-0.5),
            scales_queries: false,
            softcap: gemma.then_some(50.0),
            window: windowed.then_some(5),
            causal: true,
        };
        g.attention(&layer.cache, q, &attention)
    }

    fn rope(&self, layer: &Layer, windowed: bool) -> Rope {
        let (style, factors) = match self.family {
            Family::Llama | Family::Experts => (RopeStyle::Normal, Some(layer.factors)),
            Family::Gemma | Family::Gpt => (RopeStyle::NeoX, None),
        };
        let yarn = Yarn {
            ext_factor: 1.0,
            attn_factor: 1.1,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_context: 64,
        };
        let (freq_base, freq_scale, yarn) = if windowed {
            (1e4, 1.0, None)
        } else {
            (1e6, 0.125, Some(yarn))
        };
        Rope {
            style,
            n_dims: HEAD_DIM,
            freq_base,
            freq_scale,
            yarn,
            factors,
            attn_factor: 1.0,
        }
    }
}
