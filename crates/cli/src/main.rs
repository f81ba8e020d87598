//! The `codelab` binary.
fn main() {}
