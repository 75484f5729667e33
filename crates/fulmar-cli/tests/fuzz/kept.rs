//! Kept inputs of a fuzz target, and changed ones: what ordinary tests of several crates drive it with.

use fulmar_net::Rng;

/// Kept inputs of a target; there have to be some.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("seeds")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    // The order of a folder is the file system's.
    paths.sort();
    assert!(!paths.is_empty(), "{target} has no seeds");
    paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

/// One of the seeds with up to eight changes: bytes and runs of them changed, taken out, doubled, put
/// between, or taken from another seed.
fn changed(seeds: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed, 17);
    let mut pick = |count: usize| rng.below(count.max(1) as u64) as usize;
    let mut data = seeds[pick(seeds.len())].clone();
    for _ in 0..pick(9) {
        let at = pick(data.len() + 1);
        let end = (at + pick(8)).min(data.len());
        match pick(7) {
            0 => data.truncate(at),
            1 => drop(data.drain(at..end)),
            2 => data.insert(at, pick(256) as u8),
            3 => data[at..end].fill([0, 0xff, b'0', b'"', b':', b'/'][pick(6)]),
            4 => {
                let run = data[at..end].to_vec();
                data.splice(at..at, run);
            }
            5 => {
                let other = &seeds[pick(seeds.len())];
                let from = pick(other.len() + 1);
                let run = other[from..(from + pick(40)).min(other.len())].to_vec();
                data.splice(at..end, run);
            }
            _ => data[at..end].iter_mut().for_each(|byte| *byte = pick(256) as u8),
        }
    }
    data
}

/// Calls `drive` with what is kept for `target`, and with `count` changed inputs, which follow from
/// `FULMAR_FUZZ_FIRST`; for `FULMAR_FUZZ_SECONDS`, if that is set.
pub fn fuzz(target: &str, count: u64, drive: fn(&[u8])) {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| drive(seed));
    let first = number("FULMAR_FUZZ_FIRST").unwrap_or(0);
    let until = number("FULMAR_FUZZ_SECONDS")
        .map(|seconds| std::time::Instant::now() + std::time::Duration::from_secs(seconds));
    let is_over = |done: u64| until.map_or(done == count, |until| std::time::Instant::now() >= until);
    let mut done = 0;
    while !is_over(done) {
        let seed = first + done;
        let result = std::panic::catch_unwind(|| drive(&changed(&seeds, seed)));
        assert!(result.is_ok(), "{target}, with FULMAR_FUZZ_FIRST={seed}");
        done += 1;
    }
    println!("{target}: {done} inputs");
}
