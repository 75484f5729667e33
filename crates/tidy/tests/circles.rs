//! No circles of files inside a crate: where file A uses an item that file B defines and the reverse, neither
//! can be read alone. A parent that only declares or re-exports its children does not count. Tests may look
//! anywhere.

use std::collections::{BTreeMap, BTreeSet};

use tidy::{files, read, root};

/// Re-exports followed from one name to its definition.
const HOPS_MAX: usize = 8;

type Path = Vec<String>;

/// What a source says of itself: names only.
#[derive(Debug, Default)]
struct Source {
    name: String,
    module: Path,
    items: BTreeSet<String>,
    /// What `use` calls what, from the root of the crate.
    aliases: BTreeMap<String, Path>,
    globs: Vec<Path>,
    mentions: BTreeSet<Path>,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The module that a file is, by its path below `src/`.
fn module_of(inside: &str) -> Path {
    let parts = inside.trim_end_matches(".rs").split('/').map(str::to_owned);
    let mut module: Path = parts.collect();
    if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        module.pop();
    }
    module
}

/// Without comments and without what follows `#[cfg(test)]`.
fn code_of(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    lines.map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The item that a line at the left margin defines.
fn item(line: &str) -> Option<String> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let mut words = line.split_whitespace().skip_while(|word| matches!(*word, "unsafe" | "async"));
    let mut kind = words.next()?;
    let mut name = words.next()?;
    if kind == "const" && name == "fn" {
        (kind, name) = ("fn", words.next()?);
    }
    let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static"];
    kinds.contains(&kind).then(|| name.chars().take_while(|c| is_word(*c)).collect())
}

/// Every leaf of a tree of `use`, with the name it gets.
fn leaves(before: &[String], tree: &str, out: &mut Vec<(String, Path)>) {
    let tree = tree.trim();
    if let Some((head, list)) = tree.split_once('{') {
        let mut path = before.to_vec();
        path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
        let list = list.trim_end().strip_suffix('}').unwrap_or(list);
        let (mut depth, mut start) = (0, 0);
        for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if c == ',' && depth == 0 {
                leaves(&path, &list[start..at], out);
                start = (at + 1).min(list.len());
            }
        }
        return;
    }
    let (tree, alias) = tree.split_once(" as ").map_or((tree, None), |(tree, alias)| (tree, Some(alias)));
    let mut path = before.to_vec();
    path.extend(tree.split("::").map(|part| part.trim().to_owned()));
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let Some(last) = path.last().filter(|last| !last.is_empty()) else { return };
    out.push((alias.map_or_else(|| last.clone(), |alias| alias.trim().to_owned()), path));
}

/// The names in a stretch of code: `a`, `a::b::c`; not what stands behind a dot.
fn chains(code: &str) -> Vec<Path> {
    let mut found = Vec::new();
    let mut rest = code;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        if !is_word(c) {
            before = c;
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let len = rest.find(|c| !is_word(c) && c != ':').unwrap_or(rest.len());
        let chain = rest[..len].split("::").map(|part| part.trim_end_matches(':'));
        if before != '.' {
            found.push(chain.filter(|part| !part.is_empty()).map(str::to_owned).collect());
        }
        before = ' ';
        rest = &rest[len..];
    }
    found
}

impl Source {
    fn new(name: &str, inside: &str, text: &str) -> Self {
        let code = code_of(text);
        let mut source = Self { name: name.to_owned(), module: module_of(inside), ..Self::default() };
        source.items = code.lines().filter_map(item).collect();
        let children: BTreeSet<&str> = code
            .lines()
            .filter_map(|line| line.strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name))
            .collect();
        let mut body = String::new();
        for statement in code.split_inclusive(';') {
            let uses = statement.rmatch_indices("use ").find(|(at, _)| {
                let line = statement[..*at].rsplit('\n').next().unwrap_or_default().trim_start();
                line.is_empty()
                    || (line.starts_with("pub") && !line.contains(' '))
                    || line.ends_with(") ")
                    || line == "pub "
            });
            let Some((at, _)) = uses else {
                body += statement;
                continue;
            };
            body += &statement[..at];
            let is_export =
                statement[..at].trim_end().ends_with("pub") || statement[..at].trim_end().ends_with(')');
            source.take_use(
                &statement[at + 4..].trim_end_matches(';').replace('\n', " "),
                is_export,
                &children,
            );
        }
        let mentions = chains(&body).into_iter().filter_map(|chain| source.absolute(&chain, &children));
        source.mentions = source.mentions.iter().cloned().chain(mentions).collect();
        source
    }

    fn take_use(&mut self, tree: &str, is_export: bool, children: &BTreeSet<&str>) {
        let mut found = Vec::new();
        leaves(&[], tree, &mut found);
        for (alias, path) in found {
            let Some(path) = self.absolute(&path, children) else { continue };
            if alias == "*" {
                self.globs.push(path[..path.len() - 1].to_vec());
                continue;
            }
            if !is_export {
                self.mentions.insert(path.clone());
            }
            self.aliases.insert(alias, path);
        }
    }

    /// From the root of the crate, if it can lead to one of its files.
    fn absolute(&self, path: &[String], children: &BTreeSet<&str>) -> Option<Path> {
        let (first, mut rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module.split_last()?.1.to_vec(),
            word if children.contains(word) => [self.module.clone(), vec![word.to_owned()]].concat(),
            word => self.aliases.get(word)?.clone(),
        };
        while let Some((_, more)) = rest.split_first().filter(|(next, _)| *next == "super") {
            base.pop();
            rest = more;
        }
        base.extend_from_slice(rest);
        Some(base)
    }
}

/// The files that define what `path` names.
fn definer<'a>(sources: &'a [Source], path: &[String], hops: usize) -> Option<&'a str> {
    let length = (0..=path.len()).rev().find(|&n| sources.iter().any(|s| s.module == path[..n]))?;
    let (name, rest) = path[length..].split_first()?;
    for source in sources.iter().filter(|source| source.module == path[..length]) {
        if source.items.contains(name) {
            return Some(&source.name);
        }
        let alias = source.aliases.get(name).cloned();
        let globs = source.globs.iter().map(|glob| [&glob[..], std::slice::from_ref(name)].concat());
        for next in alias.into_iter().chain(globs).filter(|_| hops > 0) {
            if let Some(found) = definer(sources, &[&next[..], rest].concat(), hops - 1) {
                return Some(found);
            }
        }
    }
    None
}

/// Pairs of files of one crate that use each other.
fn circles(sources: &[Source]) -> BTreeSet<(String, String)> {
    let mut arrows = BTreeSet::new();
    for source in sources {
        let used = source.mentions.iter().filter_map(|path| definer(sources, path, HOPS_MAX));
        arrows.extend(used.filter(|name| *name != source.name).map(|name| (source.name.as_str(), name)));
    }
    let mutual = arrows.iter().filter(|(a, b)| a < b && arrows.contains(&(b, a)));
    mutual.map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

fn circles_of_workspace() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let crates = std::fs::read_dir(root().join("crates")).expect("the crates");
    for folder in crates.map(|entry| entry.expect("a readable folder").file_name()) {
        let folder = format!("crates/{}/src/", folder.to_string_lossy());
        let sources: Vec<Source> = files(&folder, ".rs")
            .iter()
            .filter_map(|path| Some((path, path.strip_prefix(folder.as_str())?)))
            .filter(|(_, inside)| !inside.contains("tests"))
            .map(|(path, inside)| Source::new(path, inside, &read(path)))
            .collect();
        found.extend(circles(&sources).into_iter().map(|(a, b)| format!("{a} {b}")));
    }
    found
}

#[test]
fn files_do_not_go_in_circles() {
    let found: Vec<_> = circles_of_workspace().into_iter().collect();
    assert!(found.is_empty(), "circles: move what both need below both:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_seen_and_a_parent_that_re_exports_is_none() {
    let pairs = |texts: &[(&str, &str)]| {
        let sources: Vec<_> = texts.iter().map(|(name, text)| Source::new(name, name, text)).collect();
        circles(&sources).len()
    };
    let parent = ("x/mod.rs", "mod a;\nmod b;\npub use a::{A, C};\npub(crate) use b::B;");
    let b = ("x/b.rs", "use super::A;\npub struct B;");
    assert_eq!(pairs(&[parent, ("x/a.rs", "pub struct A(super::B);"), b]), 1, "through the parent's exports");
    assert_eq!(pairs(&[parent, ("x/a.rs", "use super::b;\npub struct A(b::B);"), b]), 1, "through an alias");
    assert_eq!(pairs(&[parent, ("x/a.rs", "pub struct A;\n// super::B\n"), b]), 0, "one way");
    assert_eq!(pairs(&[parent, ("x/a.rs", "pub struct A;\n#[cfg(test)]\nuse super::B;"), b]), 0, "in tests");
    let using = ("x/mod.rs", "mod a;\npub struct P(a::A);");
    assert_eq!(pairs(&[using, ("x/a.rs", "use super::P;\npub struct A;")]), 1, "with a parent that uses it");
}
