//! The program `fulmar`.

fn main() {}
