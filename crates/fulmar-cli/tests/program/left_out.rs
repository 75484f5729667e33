//! What `fulmar cp` cannot copy: it is named and counted, the code says so, and everything else goes on.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use serde_json::Value;

use crate::common::{Finished, Folder, Home, Running, assert_same};

/// A few files, and whatever else a test puts beside them.
fn tree(folder: &Folder, name: &str) {
    for index in 0..5 {
        folder.write(&format!("{name}/f{index}"), 1000 * index, index as u8);
    }
}

#[track_caller]
fn assert_arrived(from: &Folder, name: &str, to: &Folder, copy: &str) {
    for index in 0..5 {
        assert_same(&from.join(&format!("{name}/f{index}")), &to.join(&format!("{copy}/f{index}")));
    }
}

fn shell(folder: &Folder, script: &str) {
    let made = Command::new("bash").args(["-ec", script]).current_dir(folder.path()).status().unwrap();
    assert!(made.success());
}

/// As an ordinary user: a right that only root has is given away.
fn run_ordinary(home: &Home, arguments: &[&str]) -> Option<Finished> {
    let command = home.command(arguments);
    if !rustix::process::geteuid().is_root() {
        return Some(Running::start(command).wait());
    }
    if !crate::room::has("setpriv") {
        return None;
    }
    let mut ordinary = Command::new("setpriv");
    ordinary.arg("--bounding-set=-dac_override,-dac_read_search").arg(command.get_program());
    ordinary.args(command.get_args()).env("FULMAR_HOME", home.path()).env_remove("RUST_LOG");
    Some(Running::start(ordinary).wait())
}

fn list<'a>(report: &'a Value, key: &str) -> Vec<&'a str> {
    report[key].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

/// One path of more than 4096 bytes ended everything, both ways, and was not even named.
#[test]
fn a_path_that_is_too_long_is_left_out_and_the_rest_arrives() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    tree(&here, "tree");
    let name = "n".repeat(220);
    shell(&here, &format!("cd tree; for i in $(seq 20); do mkdir {name}; cd {name}; done; echo x > deep"));
    fs::rename(here.join("tree"), there.join("down")).unwrap();
    tree(&here, "tree");
    shell(&here, &format!("cd tree; for i in $(seq 20); do mkdir {name}; cd {name}; done; echo x > deep"));
    let server = home.serve(there.path());
    let cp = |from: &str, to: &str| home.run(&["cp", "-r", "--json", "-p", &server.port(), from, to]);
    let up = cp(&here.arg("tree"), "127.0.0.1:").fails_with(7).json();
    assert_arrived(&here, "tree", &there, "tree");
    let down = cp("127.0.0.1:down", &here.arg("down")).fails_with(7).json();
    assert_arrived(&there, "down", &here, "down");
    for report in [up, down] {
        assert_eq!((&report["ok"], &report["error"]["kind"]), (&false.into(), &"incomplete".into()));
        let failed = list(&report, "failed");
        assert!(!failed.is_empty() && failed.iter().all(|path| path.starts_with(&name)), "{failed:?}");
        assert_eq!(report["not_copied"], failed.len());
    }
}

/// Nothing at all was copied, and "File exists" was all that was said.
#[test]
fn a_file_where_a_folder_goes_takes_along_what_is_in_it_and_nothing_else() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    for (folder, name) in [(&here, "up"), (&there, "down")] {
        tree(folder, name);
        folder.write(&format!("{name}/sub/x"), 10, 1);
        folder.write(&format!("{name}/sub/deeper/y"), 10, 1);
        folder.write(&format!("{name}/sub2/z"), 10, 1);
    }
    there.write("up/sub", 3, 3);
    here.write("down/sub", 3, 3);
    let server = home.serve(there.path());
    let cp = |from: &str, to: &str| home.run(&["cp", "-r", "-p", &server.port(), from, to]);
    let here_arg = here.path().to_str().unwrap();
    cp(&here.arg("up"), "127.0.0.1:")
        .fails_with(7)
        .says("File exists")
        .says("sub/x: its folder could not be made");
    cp("127.0.0.1:down", here_arg).fails_with(7).says("File exists").says("sub/deeper/y: its folder");
    assert_arrived(&here, "up", &there, "up");
    assert_arrived(&there, "down", &here, "down");
    assert_same(&here.join("up/sub2/z"), &there.join("up/sub2/z"));
    assert_same(&there.join("down/sub2/z"), &here.join("down/sub2/z"));
    assert_eq!(fs::metadata(there.join("up/sub")).unwrap().len(), 3, "what was there stays");
}

/// A folder that may not be read was left out, with code 0.
#[test]
fn what_may_not_be_read_is_named_and_the_code_says_so() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    tree(&here, "tree");
    here.write("tree/closed/x", 10, 1);
    here.write("tree/secret", 10, 1);
    for name in ["tree/closed", "tree/secret"] {
        fs::set_permissions(here.join(name), fs::Permissions::from_mode(0o0)).unwrap();
    }
    let server = home.serve(there.path());
    let tree = here.arg("tree");
    let cp = ["cp", "-r", "--json", "-p", &server.port(), &tree, "127.0.0.1:"];
    let Some(finished) = run_ordinary(&home, &cp) else { return };
    let report = finished.fails_with(7).json();
    assert_eq!(list(&report, "failed"), ["closed", "secret"]);
    assert!(report["failed"][0]["error"].as_str().unwrap().contains("closed: Permission denied"), "{report}");
    assert_arrived(&here, "tree", &there, "tree");
}

#[test]
fn links_pipes_and_sockets_are_named_both_ways() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    for (folder, name) in [(&here, "up"), (&there, "down")] {
        tree(folder, name);
        symlink("f1", folder.join(&format!("{name}/link"))).unwrap();
        shell(folder, &format!("mkfifo {name}/pipe"));
        std::os::unix::net::UnixListener::bind(folder.join(&format!("{name}/socket"))).unwrap();
    }
    let server = home.serve(there.path());
    let cp = |from: &str, to: &str, more: &[&str]| {
        home.run(&[&["cp", "-r", "-p", &server.port(), from, to], more].concat()).fails_with(7)
    };
    let here_arg = here.path().to_str().unwrap();
    for report in
        [cp(&here.arg("up"), "127.0.0.1:", &["--json"]), cp("127.0.0.1:down", here_arg, &["--json"])]
    {
        let report = report.json();
        assert_eq!(
            (list(&report, "left_out"), &report["skipped"]),
            (vec!["link", "pipe", "socket"], &3.into())
        );
        assert_eq!(report["failed"].as_array().unwrap().len(), 0);
    }
    let said = cp(&here.arg("up"), "127.0.0.1:", &[]);
    for words in ["link: a symbolic link", "pipe: a named pipe", "socket: a socket", "3 left out"] {
        assert!(said.stderr().contains(words), "{words}: {}", said.stderr());
    }
}

/// A name is anybody's text; raw, it gave orders to the terminal of whoever copied a folder or looked at a
/// log.
#[test]
fn no_name_reaches_a_terminal_raw() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    let escape = "esc\u{1b}]0;owned\u{7}";
    here.write(&format!("tree/{escape}"), 10, 1);
    here.write(&format!("tree/folder{escape}/x"), 10, 1);
    there.write(&format!("tree/folder{escape}"), 10, 1);
    symlink("nowhere", here.join(&format!("tree/link{escape}"))).unwrap();
    for name in ["tree/esc", "tree/folder"] {
        let name = name.replace("esc", "");
        let _ = fs::set_permissions(here.join(&format!("{name}{escape}")), fs::Permissions::from_mode(0o0));
    }
    let server = home.serve_at(there.path(), "127.0.0.1:0", &["--log-format", "text"]);
    let (tree, port) = (here.arg("tree"), server.port());
    let missing = here.arg(&format!("missing{escape}"));
    let sources: [&[&str]; 4] = [
        &["-r", &tree, "127.0.0.1:"],
        &[&missing, "127.0.0.1:"],
        &[&format!("127.0.0.1:{escape}"), &tree],
        &[&format!("127.0.0.1:4800:{escape}"), &tree],
    ];
    for arguments in sources {
        for more in [&[][..], &["--json"]] {
            let Some(finished) = run_ordinary(&home, &[&["cp", "-p", &port], more, arguments].concat())
            else {
                return;
            };
            let said = finished.stdout() + &finished.stderr();
            assert!(finished.code() != 0 && said.contains("owned"), "{said}");
            assert!(!said.contains(['\u{1b}', '\u{7}']), "{said:?}");
        }
    }
    server.interrupt();
    let finished = server.wait();
    let log = finished.stdout() + &finished.stderr();
    assert!(!log.contains(['\u{1b}', '\u{7}']), "{log:?}");
}

#[test]
fn one_missing_source_of_several_is_said_and_the_others_are_copied() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    for (folder, names) in [(&here, ["a", "b"]), (&there, ["c", "d"])] {
        names.iter().for_each(|name| drop(folder.write(name, 100, 1)));
    }
    here.write("other/a", 50, 2);
    let server = home.serve(there.path());
    let cp = |arguments: &[&str]| home.run(&[&["cp", "--json", "-p", &server.port()], arguments].concat());
    let here_arg = here.path().to_str().unwrap();
    let up = cp(&[&here.arg("a"), &here.arg("missing"), &here.arg("b"), "127.0.0.1:"]).fails_with(7).json();
    let down = cp(&["127.0.0.1:c", "127.0.0.1:missing", "127.0.0.1:d", here_arg]).fails_with(7).json();
    for report in [up, down] {
        assert_eq!(
            (report["files"].as_array().unwrap().len(), &report["not_copied"]),
            (2, &1.into()),
            "{report}"
        );
        assert!(report["failed"][0]["error"].as_str().unwrap().contains("missing: "), "{report}");
    }
    for name in ["a", "b", "c", "d"] {
        assert_same(&here.join(name), &there.join(name));
    }
    // The second of two that would be the same file does not replace the first, nor does it stop it.
    let twice = cp(&[&here.arg("other/a"), &here.arg("a"), "127.0.0.1:"]).fails_with(7).json();
    assert_eq!(list(&twice, "failed"), ["a"]);
    assert_same(&here.join("other/a"), &there.join("a"));
    cp(&[&here.arg("a"), &here.arg("b"), "127.0.0.1:nothing"]).fails_with(5).says("no folder on the server");
}

/// Names that are not UTF-8 could not be given, and in the report they all looked alike.
#[test]
fn names_of_any_bytes_can_be_given_and_told_apart() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    let [one, two] = [b"odd\xff".as_slice(), b"odd\xfe"].map(OsStr::from_bytes);
    fs::write(here.path().join(one), b"one").unwrap();
    fs::write(here.path().join(two), b"two").unwrap();
    fs::create_dir(here.join("back")).unwrap();
    let server = home.serve(there.path());
    let cp = |arguments: &[OsString]| {
        let mut command = home.command(&["cp", "--json", "-p", &server.port()]);
        command.args(arguments);
        Running::start(command).wait().success().json()
    };
    let up = cp(&[here.path().join(one).into(), here.path().join(two).into(), "127.0.0.1:".into()]);
    let bytes = |file: &Value| (file["name_bytes"].as_str().unwrap().to_owned(), file["bytes"].as_u64());
    let mut files: Vec<_> = up["files"].as_array().unwrap().iter().map(bytes).collect();
    files.sort();
    assert_eq!(files, [("6f6464fe".to_owned(), Some(3)), ("6f6464ff".to_owned(), Some(3))]);
    let event = server.event_of("put");
    assert!(event["path_bytes"].as_str().unwrap().starts_with("6f6464f"), "{event}");
    let remote = OsString::from_vec(b"127.0.0.1:odd\xff".to_vec());
    cp(&[remote, here.join("back").into()]);
    assert_eq!(fs::read(here.join("back").join(one)).unwrap(), b"one");
    assert_eq!(fs::read(there.path().join(two)).unwrap(), b"two");
}

#[test]
fn the_sticky_bit_of_a_folder_is_kept_both_ways() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("tree/shared/f", 10, 1);
    fs::set_permissions(here.join("tree/shared"), fs::Permissions::from_mode(0o3777)).unwrap();
    let server = home.serve(there.path());
    home.run(&["cp", "-r", "-p", &server.port(), &here.arg("tree"), "127.0.0.1:"]).success();
    home.run(&["cp", "-r", "-p", &server.port(), "127.0.0.1:tree", &here.arg("back")]).success();
    for copy in [there.join("tree/shared"), here.join("back/shared")] {
        assert_eq!(fs::metadata(copy).unwrap().mode() & 0o7777, 0o1777, "set-group-ID is not taken over");
    }
}

/// Each was sent, written and put on disk again.
#[test]
fn small_files_that_are_there_are_neither_sent_nor_written_again() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    for index in 0..300 {
        here.write(&format!("tree/{index}"), index, index as u8);
    }
    let server = home.serve(there.path());
    let up = || home.run(&["cp", "-r", "--json", "-p", &server.port(), &here.arg("tree"), "127.0.0.1:"]);
    let down =
        || home.run(&["cp", "-r", "--json", "-p", &server.port(), "127.0.0.1:tree/.", &here.arg("back")]);
    let inode = |path: std::path::PathBuf| fs::metadata(path).unwrap().ino();
    assert_eq!(up().success().json()["bytes_moved"], 299 * 300 / 2);
    down().success();
    let before = (inode(there.join("tree/7")), inode(here.join("back/7")));
    // One has other content, though size and time are the same; one has another mode.
    for folder in [there.join("tree"), here.join("back")] {
        let time = fs::metadata(folder.join("8")).unwrap().modified().unwrap();
        fs::write(folder.join("8"), [0; 8]).unwrap();
        fs::File::options().write(true).open(folder.join("8")).unwrap().set_modified(time).unwrap();
        fs::set_permissions(folder.join("9"), fs::Permissions::from_mode(0o600)).unwrap();
    }
    for report in [up().success().json(), down().success().json()] {
        assert_eq!(
            (&report["bytes_moved"], report["files"].as_array().unwrap().len()),
            (&17.into(), 300),
            "{report}"
        );
    }
    assert_eq!((inode(there.join("tree/7")), inode(here.join("back/7"))), before, "not written again");
    for index in 0..300 {
        assert_same(&here.join(&format!("tree/{index}")), &there.join(&format!("tree/{index}")));
        assert_same(&here.join(&format!("tree/{index}")), &here.join(&format!("back/{index}")));
    }
}

/// A log that grows faster than it is looked at.
#[test]
fn a_growing_file_is_copied_as_it_was_and_the_command_ends() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    let log = here.write("log", 3_000_000, 1);
    let server = home.serve(there.path());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writing = std::thread::spawn({
        let (stop, log) = (std::sync::Arc::clone(&stop), log.clone());
        move || {
            let mut file = fs::File::options().append(true).open(log).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::io::Write::write_all(&mut file, &[b'x'; 1000]).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        }
    });
    let report =
        home.run(&["cp", "--json", "-p", &server.port(), &here.arg("log"), "127.0.0.1:"]).success().json();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writing.join().unwrap();
    assert_eq!(report["changed"], 1, "{report}");
    assert!(report["files"][0]["changed"].as_str().unwrap().contains("log grew"), "{report}");
    let copy = fs::read(there.join("log")).unwrap();
    assert!(copy.len() >= 3_000_000 && fs::read(&log).unwrap().starts_with(&copy));
}
