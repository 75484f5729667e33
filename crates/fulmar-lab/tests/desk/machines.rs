//! Figure 2.1 of the LT-TCP thesis: two endpoints, a bridge between them, and a control network apart from
//! that of data. Three network namespaces are the machines; agents and controller are let in by keys as
//! between real ones.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::client::Desk;

/// Names of namespaces begin so, and the test's process follows.
const PREFIX: &str = "fulmar-fig21-";

/// The machines. Taken away when dropped, and by the next test if this one was killed.
struct Machines;

fn name(machine: &str) -> String {
    format!("{PREFIX}{}-{machine}", std::process::id())
}

fn ip(line: &str) -> bool {
    Command::new("ip").args(line.split_whitespace()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn inside(machine: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &name(machine), program]);
    command
}

impl Machines {
    /// Two ends and the bridge, with wires for data and for control.
    fn make() -> Option<Self> {
        sweep();
        for machine in ["left", "bridge", "right"] {
            if !ip(&format!("netns add {}", name(machine))) {
                println!("skipped: this test needs root, iproute2 and network namespaces");
                return None;
            }
        }
        let machines = Self;
        let at = |machine: &str, line: &str| {
            assert!(ip(&format!("-n {} {line}", name(machine))), "{machine}: {line}")
        };
        for (machine, data, control) in
            [("left", "10.8.0.1/24", "10.9.1."), ("right", "10.8.0.2/24", "10.9.2.")]
        {
            let bridge = name("bridge");
            at(machine, &format!("link add data type veth peer name data-{machine} netns {bridge}"));
            at(machine, &format!("link add ctl type veth peer name ctl-{machine} netns {bridge}"));
            at(machine, &format!("addr add {data} dev data"));
            at(machine, &format!("addr add {control}2/24 dev ctl"));
            at("bridge", &format!("addr add {control}1/24 dev ctl-{machine}"));
            for link in ["lo", "data", "ctl"] {
                at(machine, &format!("link set {link} up"));
            }
            for link in [format!("data-{machine}"), format!("ctl-{machine}"), "lo".into()] {
                at("bridge", &format!("link set {link} up"));
            }
        }
        Some(machines)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        ["left", "bridge", "right"]
            .iter()
            .for_each(|machine| _ = ip(&format!("netns del {}", name(machine))));
    }
}

/// Machines of tests that are gone.
fn sweep() {
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            ip(&format!("netns del {name}"));
        }
    }
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Moves the test's own thread to the machine of the page's.
fn enter(machine: &str) {
    let file = std::fs::File::open(format!("/run/netns/{}", name(machine))).unwrap();
    let network = Some(rustix::thread::LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), network).unwrap();
}

fn home(folder: &Path, name: &str) -> (PathBuf, fulmar::identity::Home) {
    let path = folder.join(name);
    (path.clone(), fulmar::identity::Home::at(path))
}

#[test]
fn three_machines_with_a_control_network_apart() {
    let Some(_machines) = Machines::make() else { return };
    let temp = tempfile::tempdir().unwrap();
    let (path, controller) = home(temp.path(), "controller");
    controller.create_identity().unwrap();
    let mut command = inside("bridge", env!("CARGO_BIN_EXE_fulmar-lab"));
    command.args([
        "controller",
        "--bridge",
        "data-left,data-right",
        "--control",
        "0.0.0.0:4748",
        "--no-open",
    ]);
    command.arg("--home").arg(&path);
    enter("bridge");
    let desk = Desk::start(command, temp.path().join("desk"), None);
    let agent = |machine: &str, data: &str, controller: &str, path: &Path| {
        let mut command = inside(machine, env!("CARGO_BIN_EXE_fulmar-lab"));
        command.args([
            "agent",
            "--controller",
            controller,
            "--data-address",
            data,
            "--name",
            machine,
            "--trust-new",
        ]);
        Agent(command.arg("--home").arg(path).stderr(Stdio::null()).spawn().unwrap())
    };
    let (left_path, left) = home(temp.path(), "left");
    let (right_path, right) = home(temp.path(), "right");
    let _left = agent("left", "10.8.0.1", "10.9.1.1", &left_path);
    // Nobody is let in whose key the controller does not have.
    let stranger = home(temp.path(), "stranger");
    let _stranger = agent("right", "10.8.0.9", "10.9.2.1", &stranger.0);
    for (known, name) in [(&left, "left"), (&right, "right")] {
        let key = known.identity_or_create().unwrap().public_key();
        controller.authorized_keys().add(&key, name).unwrap();
    }
    let count = |state: &Value| state["agents"].as_array().map_or(0, Vec::len);
    // Whoever is the first sends.
    desk.until("/api/state", |state| count(state) == 1);
    let _right = agent("right", "10.8.0.2", "10.9.2.1", &right_path);
    let state = desk.until("/api/state", |state| count(state) == 2);
    assert_eq!(
        (&state["agents"][0]["role"], &state["agents"][1]["role"]),
        (&json!("sender"), &json!("receiver"))
    );

    carry(&desk);
    assert_eq!(count(&desk.get("/api/state").json()), 2, "the stranger is not there");
}

/// Two transports side by side, over a path whose ways differ.
fn carry(desk: &Desk) {
    let id = desk.run(&json!({
        "kind": "test", "driver": "real", "transports": ["auto", "tcp-cubic"], "order": "together",
        "path": { "forward": { "rate": "10M", "delay": "15ms", "loss": "2%", "mark": "5%" }, "backward": { "rate": "10M", "delay": "5ms" } },
        "amount": { "bytes": 500_000 }
    }));
    let run = desk.finished(&id);
    assert_eq!(run["status"], "done", "{run}");
    for flow in 0..2 {
        let transfer = &run["transfers"][flow];
        assert!(transfer["lost_packets"].as_u64() > Some(0), "{transfer}");
        assert_eq!(transfer["received_bytes"], 500_000, "{transfer}");
    }
    let samples = desk.get(&format!("/api/runs/{id}/samples")).json();
    let some = |is_so: &dyn Fn(&Value) -> bool| samples["samples"].as_array().unwrap().iter().any(is_so);
    assert!(some(&|sample| sample["rtt_ms"].as_f64() >= Some(20.0)), "both delays count");
    // What the thesis' bridge could not do.
    assert!(some(&|sample| sample["marked_packets"].as_u64() > Some(0)), "marks and losses at once");
}
