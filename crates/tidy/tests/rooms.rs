//! The layers inside `fulmar-proto`, and inside the tunnel of `fulmar-cli`, as a rule: no arrow back up.
//!
//! endpoint > connection > coding, stream > recovery, crypto > wire > ids, units; and
//! commands > watch > near, far > flow > policy > wire. A file may name what is in its own room and in rooms
//! below it. Tests may look anywhere.

use tidy::{files, read};

const SOURCES: &str = "crates/fulmar-proto/src/";

const TUNNEL: &str = "crates/fulmar-cli/src/tunnel/";

/// The tunnel's folders with their floors; `far` and `near` do not know of each other. The commands, and the
/// file that says what they run, stand above all.
const TUNNEL_FLOORS: &[(&str, u32)] =
    &[("watch", 5), ("near", 4), ("far", 4), ("flow", 3), ("policy", 2), ("wire", 1)];

/// Each room with its floor; rooms of one floor do not know of each other.
const FLOORS: &[(&str, u32)] = &[
    ("endpoint", 8),
    ("connection", 7),
    ("config", 6),
    ("params", 5),
    ("profile", 5),
    ("coding", 4),
    ("stream", 4),
    ("recovery", 3),
    ("crypto", 3),
    ("wire", 2),
    ("error", 1),
    ("ids", 1),
    ("chance", 1),
];

/// What the root of the crate names of its rooms, and where it stands.
const AT_THE_ROOT: &[(&str, &str)] = &[
    ("Instant", "ids"),
    ("Rate", "ids"),
    ("ConnectionId", "ids"),
    ("Dir", "ids"),
    ("PacketNumber", "ids"),
    ("Side", "ids"),
    ("StreamId", "ids"),
    ("ConnectionError", "error"),
    ("TransportError", "error"),
    ("TransportErrorCode", "error"),
    ("Parameters", "params"),
    ("Profile", "profile"),
    ("TransportConfig", "config"),
    ("Connection", "connection"),
    ("Endpoint", "endpoint"),
    ("Ecn", "recovery"),
];

/// The rooms and names that a source takes from the crate: what follows each `prefix` (`crate::`), without
/// comments and tests.
fn taken(source: &str, prefix: &str) -> Vec<String> {
    let code: Vec<&str> = source
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let code = code.join("\n");
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        match rest.strip_prefix('{') {
            Some(list) => {
                let list = list.split(';').next().unwrap_or_default();
                let mut depth = 0;
                for part in list.split_inclusive(|c| ",{}".contains(c)) {
                    let name: String = part.trim_start().chars().take_while(|c| is_word(*c)).collect();
                    if depth == 0 && !name.is_empty() {
                        names.push(name);
                    }
                    depth += i32::from(part.ends_with('{')) - i32::from(part.ends_with('}'));
                }
            }
            None => names.push(rest.chars().take_while(|c| is_word(*c)).collect()),
        }
    }
    names
}

fn floor(room: &str) -> Option<u32> {
    FLOORS.iter().find(|(name, _)| *name == room).map(|(_, floor)| *floor)
}

fn room_of(name: &str) -> Option<&str> {
    let at_root = AT_THE_ROOT.iter().find(|(root, _)| *root == name).map(|(_, room)| *room);
    at_root.or_else(|| floor(name).map(|_| name))
}

/// What in `source`, a file of `room`, is above it.
fn arrows_up(room: &str, source: &str) -> Vec<String> {
    let own = floor(room).unwrap_or_else(|| panic!("{room} has no floor"));
    let is_up = |name: &String| {
        let other =
            room_of(name).unwrap_or_else(|| panic!("{name}, taken by {room}, has no place in the list"));
        other != room && floor(other) >= Some(own)
    };
    taken(source, "crate::").into_iter().filter(is_up).collect()
}

#[test]
fn no_room_of_the_protocol_knows_what_is_above_it() {
    let mut found = Vec::new();
    for path in files(SOURCES, ".rs") {
        let inside = path.strip_prefix(SOURCES).expect("below the folder");
        if inside == "lib.rs" || inside.contains("tests") {
            continue;
        }
        let room = inside.split(['/', '.']).next().expect("a name");
        found.extend(arrows_up(room, &read(&path)).into_iter().map(|name| format!("{path} -> {name}")));
    }
    assert!(found.is_empty(), "arrows back up:\n{}", found.join("\n"));
}

#[test]
fn an_arrow_back_up_is_seen() {
    assert_eq!(arrows_up("recovery", "use crate::coding::Content;\n"), ["coding"]);
    assert_eq!(arrows_up("wire", "fn f(c: crate::Connection) {}"), ["Connection"]);
    assert_eq!(arrows_up("coding", "use crate::{Instant, stream::{Streams, X}, wire::frame};"), ["stream"]);
    assert!(arrows_up("connection", "use crate::{PacketNumber, coding, recovery::{self, Ecn}};").is_empty());
    assert!(arrows_up("wire", "// crate::connection\n#[cfg(test)]\nuse crate::connection;").is_empty());
}

/// What a file of the tunnel takes of its folders that are not below its own.
fn arrows_up_in_tunnel(folder: &str, source: &str) -> Vec<String> {
    let floor =
        |folder: &str| TUNNEL_FLOORS.iter().find(|(name, _)| *name == folder).map(|(_, floor)| *floor);
    let own = floor(folder).unwrap_or_else(|| panic!("{folder} has no floor"));
    let names = taken(source, "crate::tunnel::").into_iter();
    names.filter(|name| name != folder && floor(name).is_none_or(|other| other >= own)).collect()
}

#[test]
fn no_folder_of_the_tunnel_knows_what_is_above_it() {
    let mut found = Vec::new();
    for path in files(TUNNEL, ".rs") {
        let inside = path.strip_prefix(TUNNEL).expect("below the folder");
        let Some((folder, _)) = inside.split_once('/').filter(|(folder, _)| *folder != "commands") else {
            continue;
        };
        found.extend(
            arrows_up_in_tunnel(folder, &read(&path)).into_iter().map(|up| format!("{path} -> {up}")),
        );
    }
    assert!(found.is_empty(), "arrows back up:\n{}", found.join("\n"));
    assert_eq!(arrows_up_in_tunnel("near", "use crate::tunnel::far::guest::Guest;"), ["far"]);
    assert_eq!(arrows_up_in_tunnel("flow", "use crate::tunnel::commands;"), ["commands"]);
    assert!(arrows_up_in_tunnel("far", "use crate::tunnel::flow::pump::pump;").is_empty());
}
