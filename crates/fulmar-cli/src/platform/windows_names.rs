//! Which names Windows takes for what they say.

/// Names that are devices in every folder, with any ending (Microsoft, "Naming files, paths, and
/// namespaces").
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// And these with a digit.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// Whether one part of a path is a name that Windows keeps as it is. Out of others it would read something
/// else: another folder, a stream of a file, a device, a name without what it ends with.
pub(super) fn is_kept(name: &str) -> bool {
    let is_odd = |c: char| c.is_control() || r#"\:*?"<>|"#.contains(c);
    let is_dots = name == "." || name == "..";
    is_dots || !(name.contains(is_odd) || name.ends_with(['.', ' ']) || is_device(name))
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_digit = |rest: &str| {
        let mut rest = rest.chars();
        rest.next().is_some_and(|c| c.is_ascii_digit() || "¹²³".contains(c)) && rest.next().is_none()
    };
    let is_numbered = |device: &&str| stem.strip_prefix(*device).is_some_and(is_digit);
    DEVICES.contains(&stem.as_str()) || NUMBERED_DEVICES.iter().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_windows_reads_otherwise_is_refused() {
        for name in ["a", "a.txt", ".hidden", "ü b", "..", ".", "com", "com10", "console", "lpt.a.b", "nula"]
        {
            assert!(is_kept(name), "{name}");
        }
        let odd =
            ["a:b", "C:", r"a\b", r"..\a", "a?", "a*", "a|b", "a\tb", "a.", "a ", "...", "nul", "NUL.txt"];
        for name in odd.into_iter().chain(["con ", "Con .x", "com1", "LPT9.log", "com²", "CONIN$"]) {
            assert!(!is_kept(name), "{name}");
        }
    }
}
