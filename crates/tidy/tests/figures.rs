//! What the README says of the results is what the laboratory's table counts.

use tidy::read;

/// The number before a word of the line that counts verdicts.
fn count(counts: &str, word: &str) -> usize {
    let part = counts.split(", ").find_map(|part| part.trim_end_matches('.').strip_suffix(word));
    part.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("no {word} in {counts}"))
}

#[test]
fn the_readme_counts_verdicts_as_the_results_do() {
    let results = read("docs/results/README.md");
    let counts =
        results.lines().find(|line| line.contains(" reproduced, ") && line.ends_with('.')).expect("counts");
    let [reproduced, kind, open, differ, absent, unjudged] =
        ["reproduced", "in kind", "open", "differs", "absent", "not judged"].map(|word| count(counts, word));
    assert_eq!(absent, 0, "the README's sentence has no word for results that are not there");
    let all = reproduced + kind + open + differ + unjudged;
    let says = format!(
        "Of {all} tables and figures {reproduced} are reproduced, {kind} agree in kind, {open} are open, \
         {differ} differ, and {unjudged} cannot be judged."
    );
    let readme = read("README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(&says), "the README must say: {says}");
}
