//! One hook family a file; each program only reads its arguments and calls the accounting.

mod contention;
mod learn;
mod owner;
mod plug;
mod request;
mod sched;
mod sleep;
mod spin;
mod task;
