//! Development tasks of lockscope.
fn main() {}
