//! Names of files as they are shown: to people in printable form, to programs exactly.

use serde_json::{Map, Value};

use crate::units::printable;

/// For people: fit for a terminal, whatever the bytes are.
pub fn shown(name: &[u8]) -> String {
    printable(&String::from_utf8_lossy(name))
}

/// For programs, beside [`shown`]: the bytes in hexadecimal digits, where what is shown is not the name
/// itself.
pub fn exact(name: &[u8]) -> Option<String> {
    let is_itself = shown(name).as_bytes() == name;
    (!is_itself).then(|| name.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Puts a name into an object of JSON: as `key` what is shown, as `key_bytes` the exact bytes where they
/// differ.
pub fn put(object: &mut Map<String, Value>, key: &str, name: &[u8]) {
    object.insert(key.to_owned(), shown(name).into());
    if let Some(bytes) = exact(name) {
        object.insert(format!("{key}_bytes"), bytes.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_told_apart() {
        assert_eq!(
            (shown(b"\xff\xfe"), exact(b"\xff\xfe")),
            ("\u{fffd}\u{fffd}".into(), Some("fffe".into()))
        );
        assert_eq!((shown(b"a\x1bb"), exact(b"a\x1bb")), ("a?b".into(), Some("611b62".into())));
        assert_eq!((shown("a?ü".as_bytes()), exact("a?ü".as_bytes())), ("a?ü".into(), None));
        let mut object = Map::new();
        put(&mut object, "name", b"\xff");
        put(&mut object, "remote", b"f");
        assert_eq!(
            Value::from(object),
            serde_json::json!({ "name": "\u{fffd}", "name_bytes": "ff", "remote": "f" })
        );
    }
}
