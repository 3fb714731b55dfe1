//! The `lockscope` command.

fn main() {}
