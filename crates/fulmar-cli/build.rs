//! What a feature asks for and only some systems can do gets a name of its own, so that no line of the
//! program asks for both.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|found| found == value);
    let asked = |feature: &str| std::env::var_os(feature).is_some();
    name("machine", asked("CARGO_FEATURE_MACHINE") && is("CARGO_CFG_TARGET_OS", "linux"));
    name("demo", asked("CARGO_FEATURE_DEMO") && is("CARGO_CFG_TARGET_FAMILY", "unix"));
}

fn name(word: &str, is_so: bool) {
    println!("cargo::rustc-check-cfg=cfg({word})");
    if is_so {
        println!("cargo::rustc-cfg={word}");
    }
}
