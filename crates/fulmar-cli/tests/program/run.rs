//! `fulmar run`: real programs, in a namespace with an address that is not loopback.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Folder, Home, Running, Server};
use crate::room::{GETS, HALF, Room, has};

/// An address that programs take for another machine's (RFC 5737), and more that nobody has.
const SETUP: &str = "ip addr add 203.0.113.7/32 dev lo
ip tuntap add dev silent mode tun
ip link set silent up
ip route add 203.0.113.8/32 dev silent
ip route add unreachable 203.0.113.9/32";

/// Serves the folder it stands in over HTTP; says on which port.
const WEB: &str = "import http.server as h; s = h.ThreadingHTTPServer(('203.0.113.7', 0), h.SimpleHTTPRequestHandler); \
    print('{\"address\": \"203.0.113.7:%d\"}' % s.server_port, flush=True); s.serve_forever()";

/// Answers what it was sent, when the sender has said everything, with the hash of it.
const HASH: &str = "import socket, hashlib, threading\ns = socket.create_server(('203.0.113.7', 0))
print('{\"address\": \"203.0.113.7:%d\"}' % s.getsockname()[1], flush=True)
def serve(c):
    h = hashlib.sha256()
    while data := c.recv(1 << 16): h.update(data)
    c.sendall(h.hexdigest().encode()); c.close()
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()";

/// A namespace with a gateway in it, which knows the name `far.example`.
struct Stage {
    room: Room,
    home: Home,
    gateway: Server,
    _hosts: Folder,
}

impl Stage {
    fn new() -> Option<Self> {
        let room = Room::new(SETUP)?;
        if !has("python3") {
            return None;
        }
        build_library();
        let (home, hosts) = (Home::new(), Folder::new());
        std::fs::write(hosts.join("hosts"), "203.0.113.7 far.example\n").unwrap();
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        let gateway = home.command(&["gateway", "--json", "--listen", "127.0.0.1:0"]);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, &hosts.arg("hosts")]);
        command.arg(gateway.get_program()).args(gateway.get_args()).env("FULMAR_HOME", home.path());
        let gateway = Server::start(room.inside(&command));
        Some(Self { room, home, gateway, _hosts: hosts })
    }

    fn server(&self, script: &str, folder: &Folder) -> Server {
        let mut command = Command::new("python3");
        command.args(["-c", script]);
        let mut command = self.room.inside(&command);
        command.current_dir(folder.path());
        Server::start(command)
    }

    /// `fulmar run GATEWAY -- program ..`
    fn run(&self, program: &[&str]) -> Command {
        self.run_with(&[], program)
    }

    fn run_with(&self, options: &[&str], program: &[&str]) -> Command {
        let gateway = self.gateway.address.to_string();
        let arguments = [&["run", "--accept-new", &gateway], options, &["--"], program].concat();
        self.room.inside(&self.home.command(&arguments))
    }
}

/// The library that cargo builds beside the program: nothing links it, so nothing else builds it.
fn build_library() {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_fulmar")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--package", "fulmar-preload", "--target-dir"]);
    cargo.arg(folder.parent().unwrap());
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "the library is built");
}

#[track_caller]
fn succeeds(mut command: Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{}\n{said}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn downloads_and_uploads_arrive_whole() {
    let Some(stage) = Stage::new() else { return };
    let folder = Folder::new();
    let bytes = std::fs::read(folder.write("file", 3_000_000, 1)).unwrap();
    let web = stage.server(WEB, &folder);
    let url = format!("http://{}/file", web.address);
    if has("curl") {
        let got = stage.run(&["curl", "-sS", &url]).output().unwrap();
        assert!(got.stdout == bytes, "{}", String::from_utf8_lossy(&got.stderr));
        // A name that only the gateway can look up.
        let named = format!("http://far.example:{}/file", web.address.port());
        succeeds(stage.run(&[
            "curl",
            "-sS",
            "--parallel",
            &named,
            "-o",
            "/dev/null",
            &url,
            "-o",
            "/dev/null",
        ]));
    }
    let hash = stage.server(HASH, &folder);
    let send = "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])));
assert s.sendfile(open(sys.argv[3], 'rb')) > 0; s.shutdown(socket.SHUT_WR); print(s.recv(100).decode(), end='')";
    let port = hash.address.port().to_string();
    let told = succeeds(stage.run(&["python3", "-c", send, "203.0.113.7", &port, &folder.arg("file")]));
    let expected = succeeds({
        let mut sum = Command::new("sha256sum");
        sum.arg(folder.join("file"));
        sum
    });
    assert_eq!(told, expected.split(' ').next().unwrap());
}

/// Everything that programs do around `connect`: see the script.
#[test]
fn connections_behave_as_the_kernels() {
    let Some(stage) = Stage::new() else { return };
    let folder = Folder::new();
    let hash = stage.server(HASH, &folder);
    let script = include_str!("run_semantics.py");
    let port = hash.address.port().to_string();
    let direct = {
        let mut command = Command::new("python3");
        stage.room.inside(command.args(["-c", script, "203.0.113.7", &port, "direct"]))
    };
    // What the script demands holds without us, too.
    assert_eq!(succeeds(direct), "as it should be\n");
    let carried = stage.run(&["python3", "-c", script, "203.0.113.7", &port, "carried"]);
    assert_eq!(succeeds(carried), "as it should be\n");
}

#[test]
fn iperf3_and_netcat_run() {
    let Some(stage) = Stage::new() else { return };
    if has("iperf3") {
        let server = Running::start(stage.room.shell("exec iperf3 -s -1 -B 203.0.113.7 -p 5201"));
        // Its server may not listen yet; what it ends with tells nothing, for with `-J` that is 0 also when
        // it was refused.
        let client = "for i in $(seq 50); do
    report=$(iperf3 -c 203.0.113.7 -n 2M -P 2 -J)
    case $report in *sum_received*) break;; esac
    sleep 0.2
done
echo \"$report\"";
        let report = succeeds(stage.run(&["sh", "-c", client]));
        assert!(report.contains("sum_received"), "{report}");
        drop(server);
    }
    if has("nc") {
        let folder = Folder::new();
        let hash = stage.server(HASH, &folder);
        let script = format!("echo hello | nc -N 203.0.113.7 {}", hash.address.port());
        let told = succeeds(stage.run(&["sh", "-c", &script]));
        assert_eq!(told, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    }
}

#[test]
fn the_programs_end_is_passed_on() {
    let Some(stage) = Stage::new() else { return };
    assert_eq!(stage.run(&["sh", "-c", "exit 7"]).status().unwrap().code(), Some(7));
    let killed = stage.run(&["sh", "-c", "kill -KILL $$"]).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed), Some(9));
    // What ends us is passed on, and the program decides.
    let trap = "trap 'echo asked; exit 3' TERM; echo here; while :; do sleep 0.05; done";
    let mut command = stage.run(&["sh", "-c", trap]);
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(running.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "here");
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "asked");
    assert_eq!(running.wait().unwrap().code(), Some(3));
}

#[test]
fn who_is_carried_by_a_process_that_is_killed_is_reset() {
    let Some(stage) = Stage::new() else { return };
    let _half = stage.server(HALF, &Folder::new());
    let carried = Server::start_any(stage.run(&["python3", "-c", GETS]));
    assert_eq!(carried.first["event"], "begun");
    carried.signal(Signal::KILL);
    assert_eq!(carried.event()["event"], "reset");
}

#[test]
fn the_socket_is_its_users_alone_and_nothing_is_left_of_it() {
    let Some(stage) = Stage::new() else { return };
    // Without a umask, as a service may be started.
    let bare = |script: &str| {
        let run = stage.run(&["sh", "-c", script]);
        let mut command = Command::new("sh");
        command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(run.get_program()).args(run.get_args());
        for (name, value) in run.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    };
    let show = "stat -c %a \"$(dirname \"$FULMAR_SOCKET\")\"; echo \"$FULMAR_SOCKET\"";
    let told = succeeds(bare(&show.replace("FULMAR_SOCKET", fulmar_carry::SOCKET_VARIABLE)));
    let (mode, socket) = told.trim().split_once('\n').unwrap();
    assert_eq!(mode, "700");
    assert!(!std::path::Path::new(socket).parent().unwrap().exists(), "{socket} is left");

    // However the program ends: its folder is named by what it writes first.
    for end in ["exit 3", "kill -KILL $$", "kill -TERM $$", "kill -SEGV $$"] {
        let script = format!("echo \"${}\"; {end}", fulmar_carry::SOCKET_VARIABLE);
        let output = bare(&script).output().unwrap();
        let socket = String::from_utf8(output.stdout).unwrap();
        let folder = std::path::Path::new(socket.trim()).parent().unwrap();
        assert!(folder.to_string_lossy().contains("fulmar-run-"), "{socket}");
        assert!(!folder.exists(), "{end} leaves {}", folder.display());
    }
}

#[test]
fn what_is_left_running_is_carried_on_or_told_of() {
    let Some(stage) = Stage::new() else { return };
    let hash = stage.server(HASH, &Folder::new());
    let port = hash.address.port().to_string();
    // A daemon that connects before its parent ends, asks later, and writes what comes into a file.
    let script = "import os, socket, sys, time
s = socket.create_connection(('203.0.113.7', int(sys.argv[1])))
if os.fork(): os._exit(4)
os.setsid(); time.sleep(12)
try: s.sendall(b'hello\\n'); s.shutdown(1); got = s.recv(100).decode()
except OSError as error: got = type(error).__name__
open(sys.argv[2], 'w').write(got or 'end')";
    let folder = Folder::new();
    for (is_staying, expected) in [(true, "5891b5b5"), (false, "ConnectionResetError")] {
        let path = folder.arg(if is_staying { "stays" } else { "goes" });
        let mut command = stage
            .run_with(if is_staying { &["--stay"] } else { &[] }, &["python3", "-c", script, &port, &path]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(4));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let words = if is_staying { "is carried on: python3 (" } else { "is carried no longer: python3 (" };
        assert!(said.contains(words), "{said}");
        crate::common::wait_until("the daemon has ended", || {
            std::fs::read(&path).is_ok_and(|got| !got.is_empty())
        });
        let got = std::fs::read_to_string(&path).unwrap();
        assert!(got.starts_with(expected) || (!is_staying && got == "BrokenPipeError"), "{got}");
    }
}

#[test]
fn what_cannot_be_carried_is_not_started() {
    let home = Home::new();
    let folder = Folder::new();
    let script = folder.arg("script");
    std::fs::write(&script, format!("#!{script}\n")).unwrap();
    let run = |program: &str| home.run(&["run", "127.0.0.1:1", "--", program]);
    run(&script).fails_with(1).says("cannot carry");
    run("no-such-program-here").fails_with(5).says("not found in PATH");
}
