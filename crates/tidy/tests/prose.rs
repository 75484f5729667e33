//! What a machine can see of docs/prose.md: sentences that are too long, and "whoever".
//! Pages for builders and generated ones are left alone.

use tidy::{files, read};

/// Words of the longest sentence.
const WORDS: usize = 25;

/// Pages at the root, and those of `docs` itself; deeper folders are for builders, or generated.
fn pages() -> Vec<String> {
    let is_page = |path: &String| {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        // The changelog is written by many hands at once, a line each.
        matches!(folder, "" | "docs") && path != "CHANGELOG.md"
    };
    files("", ".md").into_iter().filter(is_page).collect()
}

/// The prose of a page: each paragraph, item of a list and cell of a table in one line; no code, no headings.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut is_code = false;
    for line in text.lines() {
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```");
        is_code ^= is_fence;
        let is_indented = line.starts_with("    ") && found.last().is_some_and(String::is_empty);
        if is_fence || is_code || is_indented || trimmed.is_empty() || trimmed.starts_with('#') {
            found.push(String::new());
        } else if trimmed.starts_with('|') {
            found.extend(trimmed.split('|').map(str::to_owned));
            found.push(String::new());
        } else {
            let item = item(trimmed);
            if item.is_some() {
                found.push(String::new());
            }
            let last = found.last_mut().expect("there is always one");
            last.push_str(item.unwrap_or(trimmed));
            last.push(' ');
        }
    }
    found.into_iter().map(|paragraph| without_code(&paragraph)).collect()
}

/// The text of `- text`, `* text` or `12. text`.
fn item(line: &str) -> Option<&str> {
    let (mark, text) = line.split_once(' ')?;
    let is_number = mark.strip_suffix('.').is_some_and(|digits| digits.parse::<u32>().is_ok());
    (matches!(mark, "-" | "*") || is_number).then_some(text)
}

/// Code in quotes counts as one word, and names of tests in brackets as none.
fn without_code(paragraph: &str) -> String {
    let pieces = paragraph.split('`').enumerate();
    let text: String = pieces.map(|(at, piece)| if at % 2 == 1 { "CODE" } else { piece }).collect();
    let is_name = |word: &str| word.trim_matches([',', ';', ':']) == "CODE";
    let mut kept = String::new();
    for (at, part) in text.split('(').enumerate() {
        match part.split_once(')').filter(|(inside, _)| at > 0 && inside.split_whitespace().all(is_name)) {
            Some((_, after)) => kept.push_str(after),
            None => kept.extend([if at > 0 { "(" } else { "" }, part]),
        }
    }
    kept
}

/// Words of each sentence, or of its halves: up to `.`, `!`, `?`, `:` or `;` with a space behind it.
fn sentences(paragraph: &str) -> Vec<Vec<&str>> {
    let mut found = vec![Vec::new()];
    for word in paragraph.split_whitespace() {
        if word.contains(|c: char| c.is_alphanumeric()) {
            found.last_mut().expect("there is always one").push(word);
        }
        if word.trim_end_matches(['"', ')', '*', '_']).ends_with(['.', '!', '?', ':', ';']) {
            found.push(Vec::new());
        }
    }
    found
}

#[test]
fn sentences_are_short() {
    let mut long = Vec::new();
    for page in pages() {
        for paragraph in paragraphs(&read(&page)) {
            for sentence in sentences(&paragraph).into_iter().filter(|words| words.len() > WORDS) {
                long.push(format!("{page}: {} words: {}", sentence.len(), sentence.join(" ")));
            }
        }
    }
    assert!(long.is_empty(), "{} sentences have more than {WORDS} words: {long:#?}", long.len());
}

#[test]
fn nobody_is_whoever() {
    for page in pages().into_iter().filter(|page| page != "docs/prose.md") {
        for paragraph in paragraphs(&read(&page)) {
            assert!(!paragraph.to_lowercase().contains("whoever"), "{page}: {paragraph}");
        }
    }
}

#[test]
fn sentences_are_counted() {
    let text = "# Heading with many words\n\nOne two. Three `four five` six:\nseven (`a`, `b`) eight!\n\
                - nine\n  ten\n1. eleven\n\n```\ncode and more\n```\n    indented\n\n| a b | c |\n";
    let words: Vec<usize> =
        paragraphs(text).iter().flat_map(|p| sentences(p)).map(|s| s.len()).filter(|n| *n > 0).collect();
    assert_eq!(words, [2, 3, 2, 2, 1, 2, 1]);
}
