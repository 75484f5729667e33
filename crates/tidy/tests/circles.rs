//! No circles of files inside a crate: where each of some files can only be read after another of them, none
//! can be read alone. Circles of any length count: they are the strongly connected parts of the graph in
//! which an arrow leads from a file to the one that defines an item it names. Modules inside of files count
//! as their files. A parent that only declares or re-exports its children does not count. Tests may look
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

/// Without comments, and without the items that are compiled for tests only.
fn code_of(text: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        // The item ends with its line, or with a brace that is closed as far to the left as it began.
        let margin = line.len() - line.trim_start().len();
        let is_end = |line: &str| {
            let indent = line.len() - line.trim_start().len();
            let closes = line.trim_start().starts_with('}') || line.ends_with(';') || line.ends_with("{}");
            indent == margin && closes
        };
        lines.by_ref().find(|line| is_end(line.trim_end()));
    }
    kept.join("\n")
}

/// The modules inside of a file, with their code at the left margin, and what is left of the file.
fn inner_modules(code: &str) -> (String, Vec<(String, String)>) {
    let (mut outside, mut modules) = (Vec::new(), Vec::new());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            [.., "mod", name, "{"] if !line.starts_with(' ') => {
                let inside: Vec<_> = lines.by_ref().take_while(|line| *line != "}").collect();
                let inside = inside.iter().map(|line| line.strip_prefix("    ").unwrap_or(line));
                modules.push(((*name).to_owned(), inside.collect::<Vec<_>>().join("\n")));
                outside.push(format!("mod {name};"));
            }
            _ => outside.push(line.to_owned()),
        }
    }
    (outside.join("\n"), modules)
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
    /// What a file says of itself, and each module inside of it.
    fn of_file(name: &str, inside: &str, text: &str) -> Vec<Self> {
        let module = module_of(inside);
        let (outside, modules) = inner_modules(&code_of(text));
        let inner = modules
            .iter()
            .map(|(inner, code)| Self::new(name, [&module[..], std::slice::from_ref(inner)].concat(), code));
        inner.chain([Self::new(name, module.clone(), &outside)]).collect()
    }

    fn new(name: &str, module: Path, code: &str) -> Self {
        let mut source = Self { name: name.to_owned(), module, ..Self::default() };
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

/// What each file of one crate needs before it can be read.
fn arrows(sources: &[Source]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        let used = source.mentions.iter().filter_map(|path| definer(sources, path, HOPS_MAX));
        arrows.entry(&source.name).or_default().extend(used.filter(|name| *name != source.name));
    }
    arrows
}

/// Where one gets along the arrows.
fn reach<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        let fresh = arrows.get(next).into_iter().flatten().filter(|name| found.insert(**name));
        open.extend(fresh.copied().collect::<Vec<_>>());
    }
    found
}

/// Sets of files of one crate of which each needs each.
fn circles(sources: &[Source]) -> BTreeSet<BTreeSet<String>> {
    let arrows = arrows(sources);
    let reached: BTreeMap<_, _> = arrows.keys().map(|name| (*name, reach(&arrows, name))).collect();
    let on_circles = reached.iter().filter(|(name, there)| there.contains(*name));
    let circle = |(name, there): (&&str, &BTreeSet<&str>)| {
        let back = there.iter().filter(|other| reached[**other].contains(name));
        back.map(|other| (*other).to_owned()).collect::<BTreeSet<_>>()
    };
    on_circles.map(circle).collect()
}

fn circles_of_workspace() -> BTreeSet<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let crates = std::fs::read_dir(root().join("crates")).expect("the crates");
    for folder in crates.map(|entry| entry.expect("a readable folder").file_name()) {
        let folder = format!("crates/{}/src/", folder.to_string_lossy());
        let sources: Vec<Source> = files(&folder, ".rs")
            .iter()
            .filter_map(|path| Some((path, path.strip_prefix(folder.as_str())?)))
            .filter(|(_, inside)| !inside.contains("tests"))
            .flat_map(|(path, inside)| Source::of_file(path, inside, &read(path)))
            .collect();
        found.extend(circles(&sources));
    }
    found
}

/// Circles that there still are, each with its folder, its files and the reason. The list may only shrink.
const KNOWN: &[(&str, &[&str], &str)] = &[
    (
        "crates/fulmar-control/src/congestion/auto",
        &["evidence", "jitter", "mod", "restless"],
        "auto is measured anew; its parts will be one way",
    ),
    (
        "crates/fulmar-proto/src/connection",
        &["elsewhere", "feedback", "mod", "path", "setup"],
        "what a path carries (Carried) is defined beside those who ask the whole connection",
    ),
    ("crates/fulmar-proto/src/recovery", &["learn", "mod", "mtu"], "Recovery is being cut into parts"),
];

/// As many as there were when circles of any length were first looked for, less those that are gone.
const KNOWN_MAX: usize = 3;

#[test]
fn files_do_not_go_in_circles() {
    let known = KNOWN.iter().map(|(folder, names, _)| {
        names.iter().map(|name| format!("{folder}/{name}.rs")).collect::<BTreeSet<_>>()
    });
    let known: BTreeSet<_> = known.collect();
    let found = circles_of_workspace();
    let show = |circles: Vec<&BTreeSet<String>>| {
        let lines = circles.iter().map(|circle| circle.iter().cloned().collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let new: Vec<_> = found.iter().filter(|circle| !known.iter().any(|k| circle.is_subset(k))).collect();
    assert!(new.is_empty(), "circles: move what all need below all:\n{}", show(new));
    let gone: Vec<_> = known.iter().filter(|k| !found.iter().any(|circle| circle.is_subset(k))).collect();
    assert!(gone.is_empty(), "no circles any more: shorten KNOWN\n{}", show(gone));
    assert!(KNOWN.len() <= KNOWN_MAX, "the list of known circles grows");
}

#[test]
fn a_circle_is_seen_and_a_parent_that_re_exports_is_none() {
    let parent = ("x/mod.rs", "mod a;\nmod b;\npub use a::{A, C};\npub(crate) use b::B;");
    let b = ("x/b.rs", "use super::A;\npub struct B;");
    let a = |text| ("x/a.rs", text);
    assert_eq!(count(&[parent, a("pub struct A(super::B);"), b]), 1, "through the parent's exports");
    assert_eq!(count(&[parent, a("use super::b;\npub struct A(b::B);"), b]), 1, "through an alias");
    assert_eq!(count(&[parent, a("pub struct A;\n// super::B\n"), b]), 0, "one way");
    let using = ("x/mod.rs", "mod a;\npub struct P(a::A);");
    assert_eq!(count(&[using, a("use super::P;\npub struct A;")]), 1, "with a parent that uses it");
}

#[test]
fn a_circle_of_many_is_one_and_tests_close_none() {
    let [a, b] = [("a.rs", "use crate::b::B;\npub struct A;"), ("b.rs", "use crate::c::C;\npub struct B;")];
    let c = |text| ("c.rs", text);
    assert_eq!(count(&[a, b, c("pub struct C(crate::a::A);")]), 1, "of three");
    assert_eq!(count(&[a, b, c("pub struct C;")]), 0, "a row");
    assert_eq!(count(&[a, b, c("pub struct C;\n#[cfg(test)]\nuse crate::a::A;")]), 0, "in tests");
    let later = "#[cfg(test)]\nmod tests;\npub struct C(crate::a::A);";
    assert_eq!(count(&[a, b, c(later)]), 1, "behind a module of tests");
    let braced = "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\npub struct C;";
    assert_eq!(count(&[a, b, c(braced)]), 0, "in a module of tests");
    let inside = "pub struct C;\nmod inside {\n    use super::C;\n    use crate::a::A;\n}";
    assert_eq!(count(&[a, b, c(inside)]), 1, "from a module inside of a file");
}

fn count(texts: &[(&str, &str)]) -> usize {
    let sources: Vec<_> = texts.iter().flat_map(|(name, text)| Source::of_file(name, name, text)).collect();
    circles(&sources).len()
}
