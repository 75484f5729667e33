//! Which program is to run, and whether it can be carried: a library can be put before dynamically linked
//! programs only, and never before those that get rights from their file.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use goblin::elf::Elf;
use goblin::elf::header::{EM_AARCH64, EM_X86_64};

use crate::exit::Failure;

/// Interpreters of interpreters: as many as the kernel follows.
const SCRIPT_DEPTH_MAX: usize = 4;

/// The machine this program, and so the library, is made for.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };

const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2010;

const INSTEAD: &str =
    "`fulmar proxy` with the program's own proxy setting, `fulmar transparent` or `fulmar tun` can do it";

/// Finds the program as a shell would, and says why if it cannot be carried.
pub fn check(program: &OsStr) -> Result<(), Failure> {
    let mut path = find(program)?;
    for _ in 0..=SCRIPT_DEPTH_MAX {
        check_rights(&path)?;
        match interpreter(&path)? {
            Some(next) => path = find(&next)?,
            None => return check_binary(&path),
        }
    }
    Err(cannot(&path, "is a script whose interpreters lead to no program"))
}

fn cannot(path: &Path, why: &str) -> Failure {
    Failure::Other(format!("{} {why}: `fulmar run` cannot carry its connections; {INSTEAD}", path.display()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::File(format!("{}: {error}", path.display()))
}

/// A program with a slash is a path; another is looked for in the folders of `PATH`.
fn find(program: &OsStr) -> Result<PathBuf, Failure> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0);
    let found = std::env::split_paths(&folders).map(|folder| folder.join(program)).find(is_program);
    found.ok_or_else(|| Failure::File(format!("{}: not found in PATH", program.display())))
}

/// A program that gets rights from its file is started without preloaded libraries (ld.so(8),
/// "secure-execution mode").
fn check_rights(path: &Path) -> Result<(), Failure> {
    let file = fs::metadata(path).map_err(|e| unreadable(path, &e))?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let changes_user = file.mode() & SET_USER != 0 && file.uid() != user;
    let changes_group = file.mode() & SET_GROUP == SET_GROUP && file.gid() != group;
    if changes_user || changes_group {
        return Err(cannot(path, "is setuid or setgid, and starts without preloaded libraries"));
    }
    let mut rights = [0_u8; 64];
    let has_rights = rustix::fs::getxattr(path, "security.capability", &mut rights).is_ok_and(|n| n > 0);
    if has_rights && user != 0 {
        return Err(cannot(path, "has file capabilities, and starts without preloaded libraries"));
    }
    Ok(())
}

/// What the first line of a script names; the program behind `env` if that is it.
fn interpreter(path: &Path) -> Result<Option<std::ffi::OsString>, Failure> {
    let mut head = Vec::new();
    let file = fs::File::open(path).map_err(|e| unreadable(path, &e))?;
    file.take(512).read_to_end(&mut head).map_err(|e| unreadable(path, &e))?;
    let Some(line) = head.strip_prefix(b"#!").and_then(|rest| rest.split(|b| *b == b'\n').next()) else {
        return Ok(None);
    };
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return Ok(None) };
    let is_env = first.ends_with(b"/env");
    let behind = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let program = if is_env { behind.unwrap_or(first) } else { first };
    Ok(Some(OsStr::from_bytes(program).to_owned()))
}

fn check_binary(path: &Path) -> Result<(), Failure> {
    let bytes = fs::read(path).map_err(|e| unreadable(path, &e))?;
    // What is no ELF file the kernel refuses, or a shell runs.
    let Ok(elf) = Elf::parse(&bytes) else { return Ok(()) };
    let is_go = elf.section_headers.iter().any(|section| {
        matches!(elf.shdr_strtab.get_at(section.sh_name), Some(".go.buildinfo" | ".note.go.buildid"))
    });
    if elf.header.e_machine != MACHINE || !elf.is_64 {
        return Err(cannot(path, "is made for another kind of processor than the preloaded library"));
    }
    let Some(loader) = elf.interpreter else {
        return Err(cannot(path, "is statically linked, so that no library can be put before it"));
    };
    if is_go {
        return Err(cannot(path, "is written in Go, and calls the kernel past the C library"));
    }
    if loader.contains("ld-musl") == cfg!(target_env = "gnu") {
        return Err(cannot(path, "uses another C library than the preloaded library"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn reason(path: &Path) -> String {
        check(path.as_os_str()).unwrap_err().to_string()
    }

    #[test]
    fn ordinary_programs_and_scripts_can_be_carried() {
        check(OsStr::new("sh")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, line) in [("a", "#!/bin/sh\n"), ("b", "#! /usr/bin/env -S sh -e\n"), ("c", "true\n")] {
            let script = folder.path().join(name);
            fs::write(&script, line).unwrap();
            check(script.as_os_str()).unwrap();
        }
    }

    #[test]
    fn the_others_hear_why_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(reason(&folder.path().join("absent")).contains("No such file"));
        assert!(check(OsStr::new("no-such-program-here")).unwrap_err().to_string().contains("PATH"));

        let round = folder.path().join("round");
        fs::write(&round, format!("#!{}\n", round.display())).unwrap();
        assert!(reason(&round).contains("interpreters"));

        // This test's own binary, with its loader taken away or made for another machine.
        let own = fs::read("/proc/self/exe").unwrap();
        let foreign = folder.path().join("foreign");
        let mut bytes = own.clone();
        bytes[18] = 8;
        fs::write(&foreign, &bytes).unwrap();
        assert!(reason(&foreign).contains("processor"));

        let elf = Elf::parse(&own).unwrap();
        let at = elf.program_headers.iter().position(|h| h.p_type == goblin::elf::program_header::PT_INTERP);
        let at = elf.header.e_phoff as usize + at.unwrap() * usize::from(elf.header.e_phentsize);
        let mut bytes = own.clone();
        bytes[at..at + 4].fill(0);
        let fixed = folder.path().join("static");
        fs::write(&fixed, &bytes).unwrap();
        assert!(reason(&fixed).contains("statically linked"));
    }

    #[test]
    fn rights_of_others_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::copy("/proc/self/exe", &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
        // One's own rights are nothing new.
        check(path.as_os_str()).unwrap();
        if rustix::process::getuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
            assert!(reason(&path).contains("setuid"));
        }
    }
}
