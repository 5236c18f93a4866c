//! Times prefill and decode of a model file: `cargo run --release -p gristmill-engine --example model_speed -- FILE [threads] [prompt] [decoded] [rounds]`.

use std::path::Path;
use std::time::Instant;

use gristmill_engine::{BatchToken, Context, LoadOptions, Model, SequenceId};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| {
        arguments
            .get(index)
            .and_then(|x| x.parse().ok())
            .unwrap_or(default)
    };
    let path = arguments.first().ok_or("which file?")?;
    let (threads, n_prompt, n_decoded, rounds) =
        (number(1, 2), number(2, 512), number(3, 64), number(4, 3));
    let options = LoadOptions {
        n_threads: Some(threads),
        n_ctx: Some(n_prompt + n_decoded + 64),
        ..LoadOptions::default()
    };
    let model = Model::load(gristmill_gguf::Model::open(Path::new(path))?, &options)?;
    println!("{} on {threads} threads", model.isa());
    let mut context = Context::new(model, &options)?;
    for round in 0..=rounds {
        context.past_mut().truncate(SequenceId(0), 0);
        let start = Instant::now();
        for part in (0..n_prompt).collect::<Vec<_>>().chunks(512) {
            let batch: Vec<_> = part
                .iter()
                .map(|&i| {
                    token(
                        1000 + (i * 37 + round * 11) as u32 % 20_000,
                        i + 1 == n_prompt,
                    )
                })
                .collect();
            context.decode(&batch)?;
        }
        let prefill = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for i in 0..n_decoded {
            context.decode(&[token(1000 + i as u32 * 17, true)])?;
        }
        let decode = start.elapsed().as_secs_f64();
        if round > 0 {
            println!(
                "prefill {:8.1} t/s   decode {:7.2} t/s",
                n_prompt as f64 / prefill,
                n_decoded as f64 / decode
            );
        }
    }
    Ok(())
}

fn token(id: u32, output: bool) -> BatchToken {
    BatchToken {
        id,
        sequence: SequenceId(0),
        output,
    }
}
