//! Whether weights are numbers.

use std::sync::atomic::{AtomicUsize, Ordering};

use gristmill_gguf as gguf;

use crate::error::EngineError;

/// Reads all weights, on so many threads (0 for one per processor), and looks for NaN and infinities.
///
/// Errors: [`EngineError::TensorValues`], of the first tensor in the file that holds one.
pub fn check_values(file: &gguf::Model, n_threads: usize) -> Result<(), EngineError> {
    let views: Vec<gguf::TensorView<'_>> = file.views().collect();
    let next = AtomicUsize::new(0);
    let bad = AtomicUsize::new(views.len());
    std::thread::scope(|scope| {
        for _ in 0..gristmill_kernels::n_threads(n_threads) {
            scope.spawn(|| {
                // A fault behind one that is known tells nothing new.
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= bad.load(Ordering::Relaxed) {
                        return;
                    }
                    let view = &views[index];
                    if view.info.ty.can_decode() && view.info.ty.validate(view.data).is_err() {
                        bad.fetch_min(index, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    match views.get(bad.into_inner()) {
        None => Ok(()),
        Some(view) => Err(EngineError::TensorValues {
            name: view.info.name.clone(),
        }),
    }
}
