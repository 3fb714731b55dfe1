//! Guests side by side: an emulated one keeps a single CPU of the host busy.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Each guest takes gigabytes of memory.
const MOST: usize = 4;

/// Something to do, on a thread of its own.
pub(crate) type Job<'a, T> = Box<dyn FnOnce() -> T + Send + 'a>;

/// Does the jobs, as many at a time as the host has CPUs; returns their results in the same order.
pub(crate) fn side_by_side<T: Send>(jobs: Vec<Job<'_, T>>) -> Vec<T> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(MOST);
    let results: Vec<Mutex<Option<T>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let queue = Mutex::new(jobs.into_iter().zip(&results));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((job, result)) = next() {
                    *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(job());
                }
            });
        }
    });
    // A job that panicked has ended the scope with its panic.
    let taken = results.into_iter().map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner));
    taken.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_and_the_results_keep_their_order() {
        let jobs: Vec<Job<'_, usize>> =
            (0..20_usize).map(|index| Box::new(move || index * index) as Job<'_, usize>).collect();
        let expected: Vec<usize> = (0..20).map(|index| index * index).collect();
        assert_eq!(side_by_side(jobs), expected);
    }

    #[test]
    fn a_panic_is_not_lost() {
        let jobs: Vec<Job<'_, ()>> = vec![Box::new(|| {}), Box::new(|| panic!("no"))];
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| side_by_side(jobs)));
        assert!(result.is_err());
    }
}
