//! Programs in C and C++ over the library, compiled and run as their users would.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// How a program is linked, and what looks over its shoulder.
#[derive(Copy, Clone, Debug, PartialEq)]
enum How {
    Shared,
    Static,
    /// With the address sanitizer.
    Sanitized,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with this build's libraries: beside this test, or above.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let folders = test.ancestors().skip(1).take(2);
    let has =
        |folder: &&Path| folder.join("libfulmar_c.so").exists() && folder.join("libfulmar_c.a").exists();
    folders.into_iter().find(has).expect("libfulmar_c, shared and static").to_owned()
}

/// Compiles a program of `fulmar-c`, with no warning allowed.
fn compile(source: &str, how: How, folder: &Path) -> PathBuf {
    let out = folder.join(format!("program-{how:?}"));
    let is_cpp = source.ends_with(".cpp");
    let mut command = Command::new(if is_cpp { "c++" } else { "cc" });
    command.arg(if is_cpp { "-std=c++17" } else { "-std=c11" });
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-I"]).arg(root().join("include"));
    command.arg(root().join(source)).arg("-o").arg(&out);
    let folder = libraries();
    match how {
        How::Static => command.arg(folder.join("libfulmar_c.a")).args(["-lpthread", "-ldl", "-lm"]),
        How::Shared | How::Sanitized => {
            command.arg(folder.join("libfulmar_c.so")).arg(format!("-Wl,-rpath,{}", folder.display()))
        }
    };
    if how == How::Sanitized {
        command.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
    let output = command.output().expect("a C compiler, which the TLS library needs as well");
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    out
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Where gcc has no sanitizer, a program of one line does not link.
fn has_sanitizer() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("one.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    let mut command = Command::new("cc");
    command.arg("-fsanitize=address,undefined").arg(&source).arg("-o").arg(folder.path().join("one"));
    command.output().is_ok_and(|output| output.status.success())
}

/// Ends a program that a failed test leaves behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program wrote, whose success is asserted.
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The echo of the documentation: a server and a client.
fn echo(how: How, before: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("examples/echo.c", how, folder.path());
    let command = || {
        let mut words = before.iter().map(std::ffi::OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words);
        command
    };
    let mut server = command();
    server.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Running(server.spawn().expect("the server starts"));
    let mut lines = BufReader::new(server.0.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("address and key").expect("text");
    let (address, key) = (line(), line());
    let answer = text(&command().args([&address, &key, "hello over a storm"]).output().expect("it runs"));
    assert_eq!(answer, "hello over a storm");
    let status = server.0.wait().expect("it ends");
    let mut errors = String::new();
    server.0.stderr.take().expect("piped").read_to_string(&mut errors).expect("text");
    assert!(status.success(), "{status}: {errors}");
}

#[test]
fn echo_answers() {
    echo(How::Shared, &[]);
}

#[test]
fn echo_answers_when_linked_statically() {
    echo(How::Static, &[]);
}

#[test]
fn echo_answers_under_the_address_sanitizer() {
    if has_sanitizer() {
        echo(How::Sanitized, &[]);
    }
}

/// Of memory: where it is read and written, and what is left. (Not what is uninitialised: valgrind takes the
/// padding of the hash states that keys are derived with for what they follow from.)
const VALGRIND: &[&str] = &[
    "valgrind",
    "-q",
    "--error-exitcode=9",
    "--undef-value-errors=no",
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--errors-for-leak-kinds=definite",
];

#[test]
fn echo_answers_under_valgrind_and_leaks_nothing() {
    if has("valgrind") {
        echo(How::Shared, VALGRIND);
    }
}

/// What `make c` lays out: pkg-config finds header and library, and a program links with nothing but its
/// words.
#[test]
fn a_program_links_by_pkg_config() {
    if !has("pkg-config") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = root().join("../../scripts/c-package");
    let prefix = folder.path().to_str().expect("text");
    let status = Command::new(script).arg(libraries()).args([prefix, prefix]).status().expect("bash");
    assert!(status.success());
    let mut asks = Command::new("pkg-config");
    asks.args(["--cflags", "--libs", "fulmar"]).env("PKG_CONFIG_PATH", folder.path().join("lib/pkgconfig"));
    let words = text(&asks.output().expect("it runs"));
    let program = folder.path().join("echo");
    let mut compiles = Command::new("cc");
    compiles.arg(root().join("examples/echo.c")).arg("-o").arg(&program).args(words.split_whitespace());
    text(&compiles.output().expect("it runs"));
    let mut runs = Command::new(&program);
    runs.args(["127.0.0.1:1", "no key", "text"]).env("LD_LIBRARY_PATH", folder.path().join("lib"));
    let output = runs.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("a key or a file with keys"));
}

/// A program that runs by itself, and what it says.
fn says(source: &str, how: How, arguments: &[&str], before: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(source, how, folder.path());
    let words = before.iter().map(std::ffi::OsStr::new).chain([program.as_os_str()]);
    let words: Vec<_> = words.chain(arguments.iter().map(std::ffi::OsStr::new)).collect();
    text(&Command::new(words[0]).args(&words[1..]).output().expect("it runs"))
}

#[test]
fn the_protocol_runs_without_io() {
    let expected = "3000000 bytes; batches lost: some; key: the server's\n";
    assert_eq!(says("examples/machine.c", How::Shared, &[], &[]), expected);
    if has_sanitizer() {
        assert_eq!(says("examples/machine.c", How::Sanitized, &[], &[]), expected);
    }
}

#[test]
fn cpp_sends_datagrams() {
    let expected = "over the sea and back\nin pieces, and whole\n6 bytes are kept: longer\n";
    assert_eq!(says("examples/datagrams.cpp", How::Shared, &[], &[]), expected);
    if has_sanitizer() {
        assert_eq!(says("examples/datagrams.cpp", How::Sanitized, &[], &[]), expected);
    }
}

#[test]
fn the_contract_of_the_header_is_kept() {
    let contract = |how, before: &[&str]| {
        let home = tempfile::tempdir().expect("a folder");
        let home = home.path().join("home");
        assert_eq!(says("tests/contract.c", how, &[home.to_str().expect("text")], before), "kept\n");
    };
    contract(How::Shared, &[]);
    if has_sanitizer() {
        contract(How::Sanitized, &[]);
    }
    if has("valgrind") {
        contract(How::Shared, VALGRIND);
    }
}
