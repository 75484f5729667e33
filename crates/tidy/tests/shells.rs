//! Where a shell may be started: a list of files with the reason for each. A shell makes commands of text, so
//! each such place is looked at for what its text is made of.

use std::collections::BTreeMap;

use tidy::{files, read, sources};

/// Files with the name of a shell in them, and what every line that it gets is made of.
const ALLOWED: [(&str, &str); 4] = [
    (
        "crates/fulmar-cli/src/system.rs",
        "commands that undo changes of the network, each word quoted; a digit to a constant path of /proc/sys",
    ),
    ("crates/fulmar-lab/src/peer/run.rs", "the line `build` of a peer's file, unchanged"),
    (
        "crates/fulmar-lab/src/programs.rs",
        "lines of peers' and applications' files, or typed; with two constant addresses",
    ),
    ("crates/fulmar-siege/src/castle.rs", "a constant, whose arguments are positional parameters"),
];

/// As a program's name in a string, whatever the path before it.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "busybox"];

/// Whether a source outside of its tests names a shell as a program.
fn names_a_shell(source: &str) -> bool {
    let own = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = own.lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_shell = |word: &str| SHELLS.contains(&word.rsplit('/').next().unwrap_or(word));
    lines
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .any(|text| is_shell(text) || SHELLS.iter().any(|shell| text.contains(&format!("{shell} -c"))))
}

#[test]
fn a_shell_is_started_only_where_its_text_is_known() {
    let mut allowed: BTreeMap<&str, &str> = ALLOWED.into_iter().collect();
    let mut complaints = Vec::new();
    for path in sources() {
        if path.contains("/tests/") || path.starts_with("crates/tidy/") || !names_a_shell(&read(&path)) {
            continue;
        }
        if allowed.remove(path.as_str()).is_none() {
            complaints.push(format!(
                "{path} starts a shell: what can be in its text? (crates/tidy/tests/shells.rs)"
            ));
        }
    }
    complaints.extend(allowed.keys().map(|path| format!("{path} starts no shell: strike it from the list")));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// What varies from run to run reaches the lines of the laboratory by their environment.
#[test]
fn lines_of_the_laboratory_are_whole() {
    let mut complaints = Vec::new();
    for path in files("experiments", ".toml") {
        if !["experiments/peers/", "experiments/applications/"].iter().any(|folder| path.starts_with(folder))
        {
            continue;
        }
        let text = read(&path);
        for name in ["choice", "seconds", "rate_mbps", "here", "build"] {
            let is_said =
                |line: &&str| !line.starts_with("configured") && line.contains(&format!("{{{name}}}"));
            complaints.extend(text.lines().find(is_said).map(|line| format!("{path}: {line}")));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn shells_are_seen() {
    for source in [
        "Command::new(\"sh\")",
        "vec![\"/bin/bash\".into()]",
        "args([\"-m\", \"sh\"])",
        "\"unshare sh -c true\"",
    ] {
        assert!(names_a_shell(source), "{source}");
    }
    for source in ["// \"sh\"", "\"ssh\"", "x\n#[cfg(test)]\nmod tests { \"sh\" }"] {
        assert!(!names_a_shell(source), "{source}");
    }
}
