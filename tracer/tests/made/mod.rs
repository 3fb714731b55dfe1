//! What all runs that are made up share.

use lockscope::analyse::compare::Side;
use lockscope::model::Run;

/// About normal, and the same every time.
pub(crate) fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    // The first values of a small seed are alike.
    for _ in 0..20 {
        uniform();
    }
    move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0
}

/// A side of these runs, with names of files.
pub(crate) fn side(name: &str, runs: Vec<Run>) -> Side {
    let files = (1..=runs.len()).map(|number| format!("{name}{number}.lockscope")).collect();
    Side { files, runs }
}
