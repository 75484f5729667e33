//! `fulmar cp` against `fulmar serve`: what is copied, and what is said when it is not.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use crate::common::{Folder, Home, Server, assert_same};

#[test]
fn a_file_there_and_back() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    let source = here.write("file.bin", 3_000_000, 1);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(&source).unwrap().set_modified(old).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o640)).unwrap();
    let server = home.serve(there.path());

    let report = home
        .run(&["cp", "--json", "-p", &server.port(), &here.arg("file.bin"), "127.0.0.1:"])
        .success()
        .json();
    assert_same(&source, &there.join("file.bin"));
    let metadata = fs::metadata(there.join("file.bin")).unwrap();
    assert_eq!((metadata.modified().unwrap(), metadata.permissions().mode() & 0o777), (old, 0o640));
    let hash = blake3::hash(&fs::read(&source).unwrap()).to_hex().to_string();
    assert_eq!(report["ok"], true);
    assert_eq!(report["direction"], "up");
    assert_eq!(report["bytes_moved"], 3_000_000);
    assert_eq!(report["files"][0]["blake3"], hash.as_str());
    assert!(report["seconds"].as_f64().unwrap() > 0.0 && report["goodput_mbps"].as_f64().unwrap() > 0.0);
    assert_eq!(server.event_of("put")["bytes"], 3_000_000);

    home.run(&["cp", "-p", &server.port(), "127.0.0.1:file.bin", &here.arg("back.bin")])
        .success()
        .says("BLAKE3");
    assert_same(&source, &here.join("back.bin"));
    assert_eq!(fs::metadata(here.join("back.bin")).unwrap().modified().unwrap(), old);
}

#[test]
fn a_file_that_is_there_is_verified_and_not_sent() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", 1_000_000, 1);
    let server = home.serve(there.path());
    let copy =
        || home.run(&["cp", "--json", "-p", &server.port(), &here.arg("f"), "127.0.0.1:g"]).success().json();
    assert_eq!(copy()["bytes_moved"], 1_000_000);
    let again = copy();
    assert_eq!(again["bytes_moved"], 0);
    assert_eq!(again["files"][0]["resumed_bytes"], 1_000_000);
}

#[test]
fn folders_there_and_back() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    for index in 0..40 {
        here.write(&format!("tree/many/{index}"), index * 3000, index as u8);
    }
    here.write("tree/a/b/c/deep", 200_000, 7);
    here.write("tree/empty", 0, 0);
    fs::create_dir(here.join("tree/nothing in it")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"odd \xff\xfe name");
    fs::write(here.join("tree").join(odd), b"odd").unwrap();
    symlink("/etc/passwd", here.join("tree/link")).unwrap();
    let server = home.serve(there.path());

    let up = home
        .run(&["cp", "-r", "--json", "-p", &server.port(), &here.arg("tree"), "127.0.0.1:"])
        .fails_with(7)
        .json();
    assert_eq!(up["files"].as_array().unwrap().len(), 43);
    assert_eq!(up["skipped"], 1, "the link");
    home.run(&["cp", "-r", "-p", &server.port(), "127.0.0.1:tree", &here.arg("back")])
        .success()
        .says("43 files");

    for copy in [there.join("tree"), here.join("back")] {
        for index in 0..40 {
            assert_same(&here.join(&format!("tree/many/{index}")), &copy.join(format!("many/{index}")));
        }
        assert_same(&here.join("tree/a/b/c/deep"), &copy.join("a/b/c/deep"));
        assert_eq!(fs::read(copy.join(odd)).unwrap(), b"odd");
        assert_eq!(fs::metadata(copy.join("empty")).unwrap().len(), 0);
        assert!(copy.join("nothing in it").is_dir());
        assert!(!copy.join("link").exists());
    }
}

#[test]
fn several_sources_go_into_a_folder() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("a", 10, 1);
    here.write("b", 10, 2);
    fs::create_dir(there.join("in")).unwrap();
    let server = home.serve(there.path());
    home.run(&["cp", "-q", "-p", &server.port(), &here.arg("a"), &here.arg("b"), "127.0.0.1:in"]).success();
    assert_same(&here.join("a"), &there.join("in/a"));
    assert_same(&here.join("b"), &there.join("in/b"));
}

#[test]
fn what_cannot_be_copied_is_said_with_its_reason() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", 100, 1);
    fs::create_dir(there.join("folder")).unwrap();
    fs::write(there.join("g"), b"g").unwrap();
    let server = home.serve(there.path());
    let cp = |arguments: &[&str]| home.run(&[&["cp", "-p", &server.port()], arguments].concat());
    let (f, missing, here_arg) = (here.arg("f"), here.arg("missing"), here.path().to_str().unwrap());

    cp(&[&missing, "127.0.0.1:"]).fails_with(5).says("missing: No such file");
    cp(&["127.0.0.1:missing", here_arg]).fails_with(5).says("there is no such file on the server");
    cp(&[here_arg, "127.0.0.1:"]).fails_with(5).says("use -r");
    cp(&["127.0.0.1:folder", here_arg]).fails_with(5).says("use -r");
    cp(&[&f, "127.0.0.1:no/such/folder/f"]).fails_with(5).says("No such file");
    cp(&["127.0.0.1:g", "/no/such/folder/g"]).fails_with(5).says("No such file");
    cp(&["-r", here_arg, "127.0.0.1:g"]).fails_with(5).says("is a file on the server");
    cp(&[&f, "elsewhere"]).fails_with(2).says("HOST:PATH");
    cp(&["127.0.0.1:g", "127.0.0.1:h"]).fails_with(2);
    let error = cp(&["--json", "127.0.0.1:missing", here_arg]).fails_with(5).json();
    assert_eq!((&error["ok"], &error["error"]["kind"]), (&false.into(), &"file".into()));
}

#[test]
fn a_file_with_the_name_of_a_part_is_left_out_and_said_to_be() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("tree/.old.fulmar-part", 100, 1);
    here.write("tree/f", 100, 2);
    let server = home.serve(there.path());
    let cp = |arguments: &[&str]| home.run(&[&["cp", "-r", "-p", &server.port()], arguments].concat());
    cp(&[&here.arg("tree"), "127.0.0.1:"]).fails_with(7).says(".old.fulmar-part: left out");
    assert_same(&here.join("tree/f"), &there.join("tree/f"));
    there.write("tree/.old.fulmar-part", 100, 1);
    let down = cp(&["--json", "127.0.0.1:tree", &here.arg("back")]).fails_with(7).json();
    assert_eq!(down["failed"][0]["name"], ".old.fulmar-part", "{down}");
    assert_same(&there.join("tree/f"), &here.join("back/f"));
}

#[test]
fn a_pipe_over_there_is_no_place_for_a_file() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", 100, 1);
    let made = std::process::Command::new("mkfifo").arg(there.join("f")).status().unwrap();
    assert!(made.success());
    let server = home.serve(there.path());
    let cp = |from: &str, to: &str| home.run(&["cp", "-p", &server.port(), from, to]);
    cp(&here.arg("f"), "127.0.0.1:").fails_with(5).says("neither file nor folder");
    cp("127.0.0.1:f", &here.arg("g")).fails_with(5).says("neither file nor folder");
}

#[test]
fn nothing_outside_of_the_root_can_be_reached() {
    let (home, outer, here) = (Home::new(), Folder::new(), Folder::new());
    outer.write("secret", 100, 1);
    fs::create_dir(outer.join("root")).unwrap();
    symlink("../secret", outer.join("root/link")).unwrap();
    symlink("..", outer.join("root/up")).unwrap();
    here.write("f", 100, 2);
    let server = home.serve(&outer.join("root"));
    let cp = |from: &str, to: &str| home.run(&["cp", "-p", &server.port(), from, to]);

    for path in ["../secret", "link", "up/secret", "x/../../secret"] {
        cp(&format!("127.0.0.1:{path}"), here.path().to_str().unwrap()).fails_with(5);
    }
    cp(&here.arg("f"), "127.0.0.1:../planted").fails_with(5).says("`..` is not allowed");
    cp(&here.arg("f"), "127.0.0.1:up/planted").fails_with(5).says("leads out");
    assert!(!outer.join("planted").exists());
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1, "nothing came");
}

#[test]
fn a_server_that_only_gives() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", 100, 1);
    there.write("g", 100, 2);
    let server = home.serve_at(there.path(), "127.0.0.1:0", &["--read-only"]);
    home.run(&["cp", "-p", &server.port(), &here.arg("f"), "127.0.0.1:"]).fails_with(5).says("only gives");
    home.run(&["cp", "-p", &server.port(), "127.0.0.1:g", here.path().to_str().unwrap()]).success();
    assert_same(&there.join("g"), &here.join("g"));
}

/// A file size limit stands for a full disk: it needs no privileges. (SIGXFSZ is ignored by the shell, and so
/// by the program it starts, which then gets EFBIG from the write.)
fn limited(home: &Home, kilobytes: u32, arguments: &[&str]) -> std::process::Command {
    let mut command = home.command(&[]);
    let program = command.get_program().to_owned();
    command = std::process::Command::new("bash");
    command
        .args(["-c", &format!("trap '' XFSZ; ulimit -f {kilobytes}; exec \"$0\" \"$@\"")])
        .arg(program)
        .args(arguments);
    command.env("FULMAR_HOME", home.path()).env_remove("RUST_LOG");
    command
}

#[test]
fn a_full_disk_over_there_is_told_to_both_sides() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("big", 5_000_000, 1);
    here.write("small", 1000, 2);
    let root = there.path().to_str().unwrap();
    let serve = ["serve", "--json", "--listen", "127.0.0.1:0", "--root", root];
    let server = Server::start(limited(&home, 1000, &serve));
    home.run(&["cp", "-p", &server.port(), &here.arg("big"), "127.0.0.1:"])
        .fails_with(5)
        .says("big: File too large")
        .says("what had arrived of it was removed");
    assert!(!there.join(".big.fulmar-part").exists(), "it would keep the disk full");
    assert!(server.event_of("failed")["error"].as_str().unwrap().contains("File too large"));
    assert!(!there.join("big").exists());
    home.run(&["cp", "-p", &server.port(), &here.arg("small"), "127.0.0.1:"]).success();
}

#[test]
fn a_full_disk_here_is_told_to_both_sides() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    there.write("big", 5_000_000, 1);
    let server = home.serve(there.path());
    let output =
        limited(&home, 1000, &["cp", "-p", &server.port(), "127.0.0.1:big", here.path().to_str().unwrap()]);
    let finished = crate::common::Running::start(output).wait();
    finished.fails_with(5).says("this machine: big: File too large");
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "it would keep the disk full");
    assert!(server.event_of("failed")["error"].as_str().unwrap().contains("File too large"));
}

/// The disk was filled to its last byte, and a hidden part kept it so.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_has_no_room_is_refused_before_its_first_byte_and_smaller_ones_arrive() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may mount");
        return;
    }
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    for (name, bytes) in [("tree/a big one", 6_000_000), ("tree/a small one", 100_000), ("tree/zero", 0)] {
        here.write(name, bytes, 1);
    }
    let root = there.path().to_str().unwrap();
    let program = home.command(&[]);
    let mount = format!("mount -t tmpfs -o size=4m none {root} && exec \"$0\" \"$@\"");
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-c", &mount]).arg(program.get_program());
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--root", root]);
    command.env("FULMAR_HOME", home.path()).env_remove("RUST_LOG");
    let server = Server::start(command);
    let cp = |more: &[&str]| home.run(&[&["cp", "-r", "--json", "-p", &server.port()], more].concat());
    let report = cp(&[&here.arg("tree"), "127.0.0.1:"]).fails_with(5).json();
    let error = report["failed"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("the other side says: "), "{error}");
    assert!(error.contains("a big one: the disk has no room: 5.7 MiB needed, "), "{error}");
    assert_eq!(
        (&report["bytes_moved"], report["files"].as_array().unwrap().len()),
        (&100_000.into(), 2),
        "{report}"
    );
    // Nothing of it stays: another file has all the room.
    here.write("other", 3_800_000, 2);
    cp(&[&here.arg("other"), "127.0.0.1:"]).success();
}
