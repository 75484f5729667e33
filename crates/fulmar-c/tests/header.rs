//! The header in the tree is the one that the sources make.

use std::path::{Path, PathBuf};

/// The sources, in order.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    paths.into_iter().flat_map(below).collect()
}

fn generate() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("settings of cbindgen");
    // It reads the modules that this one names.
    let builder = cbindgen::Builder::new().with_config(config).with_src(root.join("src/lib.rs"));
    let mut header = Vec::new();
    builder.generate().expect("a header").write(&mut header);
    String::from_utf8(header).expect("text")
}

/// `FULMAR_C_HEADER=write cargo test -p fulmar-c --test header` (`make c-header`) writes it.
#[test]
fn the_header_is_what_the_sources_make() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/fulmar.h");
    let made = generate();
    if std::env::var_os("FULMAR_C_HEADER").is_some_and(|value| value == "write") {
        std::fs::write(&path, &made).expect("a place to write");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{} is not what the sources make: `make c-header`", path.display());
}

/// Every function for C is in it, and none is there that is not.
#[test]
fn the_header_has_every_function() {
    let header = generate();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for path in sources(&root.join("src")) {
        let source = std::fs::read_to_string(&path).expect("a source");
        let lines: Vec<&str> = source.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[unsafe(no_mangle)]") {
            let name =
                pair[1].split("fn ").nth(1).and_then(|rest| rest.split('(').next()).expect("a function");
            assert!(
                header.contains(&format!("{name}(")),
                "{name} of {} is not in the header",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count > 40, "{count} functions");
}
