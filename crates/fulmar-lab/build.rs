//! A page that is built after the program was is put into it with the next build.

fn main() {
    println!("cargo::rerun-if-changed=../../dashboard/dist");
    println!("cargo::rerun-if-changed=build.rs");
}
