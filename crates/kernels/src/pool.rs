//! The thread pool: persistent threads that share the chunks of one job at a time.
//!
//! A job's chunks come off one atomic counter, so a thread that lost its core takes fewer of them. The
//! caller works too and waits only for threads that hold a chunk: a thread that has not woken up by the
//! time all chunks are taken is not waited for. Idle threads spin for some tens of microseconds (the gap
//! between two jobs of a decoding step), then park.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long an idle thread looks for the next job before it parks.
const SPIN: Duration = Duration::from_micros(60);

/// Rounds of looking between two readings of the clock.
const ROUNDS_PER_CLOCK: u32 = 64;

/// Set in the state word while a job accepts threads.
const OPEN: u64 = 1 << 16;
/// One job further in the state word; below `OPEN` is the number of threads inside the job.
const EPOCH: u64 = 1 << 17;
const ACTIVE_MASK: u64 = OPEN - 1;

/// Most threads that are worth a request: beyond, they only cost memory.
pub const MAX_THREADS: usize = 512;

/// The number of threads that a request means: 0 is as many as the machine has; at most [`MAX_THREADS`].
pub fn n_threads(asked: usize) -> usize {
    let n = match asked {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    n.min(MAX_THREADS)
}

type Job<'a> = dyn Fn(usize) + Sync + 'a;

/// The job in progress. Written only while no thread is inside a job, read only by threads inside one.
struct Slot {
    job: Option<*const Job<'static>>,
    n_chunks: usize,
}

/// One cache line for each word that threads fight over.
#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    state: Line<AtomicU64>,
    next_chunk: Line<AtomicUsize>,
    slot: UnsafeCell<Slot>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Set by a caller that parks until the last thread leaves.
    caller_parked: AtomicBool,
    caller: Mutex<Option<Thread>>,
    parked: Vec<Line<AtomicBool>>,
    stop: AtomicBool,
}

// SAFETY: `slot` follows the protocol of the state word (see `Slot`); the rest is made of Sync types. The
// pointer inside it is to a `Sync` closure that outlives every use (see `Pool::run`).
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// Threads that share the chunks of one job at a time.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Held while a job runs.
    running: Mutex<()>,
}

impl Pool {
    /// A pool of `n_threads` threads, the caller of [`run`](Self::run) counted (0 is taken as 1).
    ///
    /// Where the system refuses a thread, the pool has fewer; [`n_threads`](Self::n_threads) says how many.
    pub fn new(n_threads: usize) -> Self {
        let n_workers = n_threads.clamp(1, ACTIVE_MASK as usize) - 1;
        let shared = Arc::new(Shared {
            state: Line(AtomicU64::new(0)),
            next_chunk: Line(AtomicUsize::new(0)),
            slot: UnsafeCell::new(Slot {
                job: None,
                n_chunks: 0,
            }),
            panic: Mutex::new(None),
            caller_parked: AtomicBool::new(false),
            caller: Mutex::new(None),
            parked: (0..n_workers)
                .map(|_| Line(AtomicBool::new(false)))
                .collect(),
            stop: AtomicBool::new(false),
        });
        let mut threads = Vec::with_capacity(n_workers);
        for index in 0..n_workers {
            let shared = Arc::clone(&shared);
            let name = format!("gristmill-{}", index + 1);
            match std::thread::Builder::new()
                .name(name)
                .spawn(move || shared.work(index))
            {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        Self {
            shared,
            threads,
            running: Mutex::new(()),
        }
    }

    /// Threads that take part in a job, the caller counted.
    pub fn n_threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `job` once with each index in `0..n_chunks`, on all threads, and returns when all calls are done.
    ///
    /// A call from inside a job, or while another thread runs one, does its chunks on the calling thread.
    ///
    /// # Panics
    /// If a call of `job` panics, chunks not yet begun are dropped and the panic continues here.
    pub fn run(&self, n_chunks: usize, job: impl Fn(usize) + Sync) {
        let guard = if n_chunks > 1 && !self.threads.is_empty() {
            self.running.try_lock()
        } else {
            return each(n_chunks, job);
        };
        let _guard = match guard {
            Ok(guard) => guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return each(n_chunks, job),
        };
        let job: &Job<'_> = &job;
        // SAFETY: only the lifetime changes. `close` below returns after the last thread has left the job, and it
        // is reached on every path, so no thread sees the closure after this call.
        let job: *const Job<'static> =
            unsafe { std::mem::transmute::<&Job<'_>, &Job<'static>>(job) };
        self.shared.open(job, n_chunks);
        for (parked, thread) in self.shared.parked.iter().zip(&self.threads) {
            if parked.0.load(Ordering::Relaxed) && parked.0.swap(false, Ordering::AcqRel) {
                thread.thread().unpark();
            }
        }
        // SAFETY: the closure is alive: this frame borrows it.
        let job = unsafe { &*job };
        let result = catch_unwind(AssertUnwindSafe(|| self.shared.take_chunks(job, n_chunks)));
        if result.is_err() {
            self.shared.next_chunk.0.store(n_chunks, Ordering::Relaxed);
        }
        self.shared.close();
        let from_worker = lock(&self.shared.panic).take();
        if let Some(payload) = result.err().or(from_worker) {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A worker catches the panics of its jobs, so joining cannot fail.
            let _ = thread.join();
        }
    }
}

fn each(n_chunks: usize, job: impl Fn(usize)) {
    (0..n_chunks).for_each(job);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Publishes a job. Only one caller at a time, with no job open and no thread inside one.
    fn open(&self, job: *const Job<'static>, n_chunks: usize) {
        // SAFETY: the state word is closed with no thread inside, and threads read the slot only after entering.
        unsafe {
            *self.slot.get() = Slot {
                job: Some(job),
                n_chunks,
            }
        };
        self.next_chunk.0.store(0, Ordering::Relaxed);
        let state = self.state.0.load(Ordering::Relaxed);
        // SeqCst orders this store before the reading of the parked flags (see `work`).
        self.state
            .0
            .store(state.wrapping_add(EPOCH) | OPEN, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Lets no further thread in and waits until those inside have left.
    fn close(&self) {
        let inside = self.state.0.fetch_and(!OPEN, Ordering::AcqRel) & ACTIVE_MASK;
        if inside == 0 || self.spin_until(|state| state & ACTIVE_MASK == 0).is_some() {
            return;
        }
        *lock(&self.caller) = Some(std::thread::current());
        self.caller_parked.store(true, Ordering::SeqCst);
        while self.state.0.load(Ordering::SeqCst) & ACTIVE_MASK != 0 {
            std::thread::park();
        }
        self.caller_parked.store(false, Ordering::SeqCst);
    }

    fn take_chunks(&self, job: &Job<'_>, n_chunks: usize) {
        loop {
            let chunk = self.next_chunk.0.fetch_add(1, Ordering::Relaxed);
            if chunk >= n_chunks {
                return;
            }
            job(chunk);
        }
    }

    /// Looks at the state until `ready` holds, for [`SPIN`] at most.
    fn spin_until(&self, ready: impl Fn(u64) -> bool) -> Option<u64> {
        let mut deadline = None;
        loop {
            for _ in 0..ROUNDS_PER_CLOCK {
                let state = self.state.0.load(Ordering::Acquire);
                if ready(state) {
                    return Some(state);
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now >= *deadline.get_or_insert(now + SPIN) {
                return None;
            }
        }
    }

    /// The life of a worker thread.
    fn work(&self, index: usize) {
        let mut last_epoch = 0;
        while !self.stop.load(Ordering::Acquire) {
            let is_new = |state: u64| state & OPEN != 0 && state / EPOCH != last_epoch;
            let Some(state) = self.spin_until(is_new) else {
                self.park(index, is_new);
                continue;
            };
            if self
                .state
                .0
                .compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                continue;
            }
            last_epoch = state / EPOCH;
            self.do_job();
            if self.state.0.fetch_sub(1, Ordering::SeqCst) & (ACTIVE_MASK | OPEN) == 1
                && self.caller_parked.load(Ordering::SeqCst)
                && let Some(caller) = lock(&self.caller).take()
            {
                caller.unpark();
            }
        }
    }

    /// Takes chunks of the open job, which this thread has entered.
    fn do_job(&self) {
        // SAFETY: this thread is counted in the state word, so the slot is not written until it leaves.
        let Slot { job, n_chunks } = unsafe { &*self.slot.get() };
        let Some(job) = *job else { return };
        // SAFETY: the caller that published the pointer waits in `close` until this thread has left.
        let job = unsafe { &*job };
        let result = catch_unwind(AssertUnwindSafe(|| self.take_chunks(job, *n_chunks)));
        if let Err(payload) = result {
            self.next_chunk.0.store(*n_chunks, Ordering::Relaxed);
            lock(&self.panic).get_or_insert(payload);
        }
    }

    fn park(&self, index: usize, is_new: impl Fn(u64) -> bool) {
        let parked = &self.parked[index].0;
        parked.store(true, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        // A job published before the flag was seen is found here; one published after it unparks this thread.
        if !is_new(self.state.0.load(Ordering::SeqCst)) && !self.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        parked.store(false, Ordering::SeqCst);
    }
}
