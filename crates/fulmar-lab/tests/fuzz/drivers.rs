//! Entry points of the operator's desk that take any bytes: the fuzz target of `fuzz/` and an ordinary test
//! call them. None may panic, and each checks what must hold of whatever was accepted.
#![cfg(target_os = "linux")]

use fulmar_lab::desk::said;
use fulmar_lab::desk::types::{Amount, DriverName, Path, Refusal, Spec};

/// What a page, an experiment file, an agent or a controller says.
pub fn desk(data: &[u8]) {
    if let Some(spec) = accepted(said::run(data)) {
        run(&spec);
        changed(&spec.path, data);
    }
    changed(&Path::default(), data);
    for hear in [said::report, said::order] {
        if let Ok(again) = hear(data) {
            assert_eq!(
                hear(again.as_bytes()).as_ref(),
                Ok(&again),
                "what was understood means the same again"
            );
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    // It is not told of other files of this machine by name, which would be read.
    if text.contains("trace") || text.contains("file") {
        return;
    }
    if let Some(specs) = accepted(said::experiment("experiments/experiment.toml", text)) {
        assert!(specs.len() <= 200, "{} runs of one file", specs.len());
    }
}

/// What there is, if it is not refused as a mistake of who said it.
fn accepted<T>(read: Result<T, Refusal>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(refusal) => {
            assert!([400, 422].contains(&refusal.status) && !refusal.message.is_empty(), "{refusal:?}");
            None
        }
    }
}

/// A run that may be run is in range, means the same when it is said again, and survives the way to a file.
fn run(spec: &Spec) {
    let said_again = serde_json::to_vec(spec).expect("plain values");
    assert_eq!(said::run(&said_again).as_ref(), Ok(spec));
    assert!((1..=16).contains(&spec.transports.len()) && (1..=1000).contains(&spec.transfers));
    assert!(!spec.title.is_empty() && spec.title.chars().count() <= 200, "{:?}", spec.title);
    if let Amount::Seconds(seconds) = spec.amount {
        assert!(spec.kind == fulmar_lab::desk::types::Kind::Demo || seconds <= 3600.0);
    }
    if spec.driver == DriverName::Virtual
        && let Some(file) = accepted(said::file(spec))
    {
        let specs = said::experiment("experiments/experiment.toml", &file).expect("it was written here");
        let [again] = &specs[..] else { panic!("{} runs of one", specs.len()) };
        assert_eq!(
            (again.transfers, again.seed, &again.transports),
            (spec.transfers, spec.seed, &spec.transports)
        );
    }
}

/// A change changes what may be moved, and nothing else.
fn changed(path: &Path, data: &[u8]) {
    const FIXED: [&str; 2] = ["queue", "blackout"];
    if let Some(after) = accepted(said::change(path, data)) {
        for key in FIXED {
            assert_eq!(after.forward.get(key), path.forward.get(key), "{key}");
        }
        assert!(path.forward.keys().all(|key| after.forward.contains_key(key)), "nothing is lost");
    }
}
