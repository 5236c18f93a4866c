//! Jobs on several threads, told of and collected on the caller's.

use std::cell::RefCell;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use crate::copy::{Event, Progress};
use crate::error::Result;

/// As many threads as asked for; for 0, as the machine has.
pub fn n_threads(asked: usize) -> usize {
    match asked {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        n => n.min(1024),
    }
}

enum Message<R> {
    Bytes(u64),
    Done(usize, Result<R>),
}

/// Does all jobs and gives their results in order. `work` calls its second argument with the bytes it has done. On one
/// thread, that is the caller's. A panic of `work` is one of the caller too.
///
/// # Errors
/// That of the first job that failed, in order of the jobs; jobs that were not begun by then are left out.
pub fn run<J: Sync, R: Send>(
    jobs: &[J],
    n_threads: usize,
    progress: Progress<'_>,
    work: impl Fn(&J, &dyn Fn(u64)) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let n_threads = n_threads.clamp(1, jobs.len().max(1));
    if n_threads == 1 {
        let progress = RefCell::new(progress);
        let done = |bytes| progress.borrow_mut()(Event::Done { bytes });
        return jobs.iter().map(|job| work(job, &done)).collect();
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let worker = |sender: Sender<Message<R>>| {
        while !failed.load(Ordering::Relaxed)
            && let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(job) = jobs.get(index)
        {
            // The receiver outlives the threads; were it gone, nobody would miss the message.
            let result = work(job, &|bytes| drop(sender.send(Message::Bytes(bytes))));
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            drop(sender.send(Message::Done(index, result)));
        }
    };
    let mut results: Vec<Option<Result<R>>> = jobs.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let mut n_running = 0;
        for _ in 0..n_threads {
            let own = sender.clone();
            let spawned = std::thread::Builder::new().spawn_scoped(scope, || worker(own));
            n_running += usize::from(spawned.is_ok());
        }
        if n_running == 0 {
            // The system gives no threads: this one does the work, and tells of it at the end.
            worker(sender);
        } else {
            drop(sender);
        }
        for message in receiver {
            match message {
                Message::Bytes(bytes) => progress(Event::Done { bytes }),
                Message::Done(index, result) => results[index] = Some(result),
            }
        }
    });
    results.into_iter().flatten().collect()
}
