//! Thread pools of our own: the number of threads is the caller's, and a process that was forked starts new ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::ThreadPool;

const MOST: usize = 1024;

/// Runs `work` on `n` threads without the interpreter's lock; 0 is `HUNKWISE_NUM_THREADS`, or one for each core.
pub(crate) fn run<R: Send>(
    py: Python<'_>,
    n: usize,
    work: impl Send + FnOnce() -> R,
) -> PyResult<R> {
    let pool = pool(chosen(n)?)?;
    Ok(py.detach(|| pool.install(work)))
}

fn chosen(n: usize) -> PyResult<usize> {
    let n = match (n, std::env::var("HUNKWISE_NUM_THREADS")) {
        (0, Ok(text)) => text.trim().parse().map_err(|_| {
            PyValueError::new_err(format!(
                "HUNKWISE_NUM_THREADS is {text:?}, not a number of threads"
            ))
        })?,
        _ => n,
    };
    if n > MOST {
        return Err(PyValueError::new_err(format!("{n} threads; {MOST} at most")));
    }
    Ok(match n {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    })
}

/// By process and number of threads: after a fork the threads of the parent's pools are not there.
type Pools = HashMap<(u32, usize), Arc<ThreadPool>>;

fn pool(n: usize) -> PyResult<Arc<ThreadPool>> {
    static POOLS: Mutex<Option<Pools>> = Mutex::new(None);
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    let pools = pools.get_or_insert_default();
    if let Some(pool) = pools.get(&(process, n)) {
        return Ok(pool.clone());
    }
    // Dropping a pool waits for its threads, and those of the parent will never answer.
    let (own, of_parent) = pools.drain().partition(|((of, _), _)| *of == process);
    *pools = own;
    std::mem::forget::<Pools>(of_parent);
    let built = rayon::ThreadPoolBuilder::new()
        .num_threads(n)
        .thread_name(|i| format!("hunkwise-{i}"))
        .build()
        .map_err(|e| PyRuntimeError::new_err(format!("{n} threads could not be started: {e}")))?;
    let pool = Arc::new(built);
    pools.insert((process, n), pool.clone());
    Ok(pool)
}
