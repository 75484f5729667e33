//! The bridge in real time. Without the right to make namespaces these tests say so and pass.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn lab(line: &str) -> Option<Output> {
    lab_with(line, &[])
}

/// Runs the program; `None` if this user may not.
fn lab_with(line: &str, more: &[&str]) -> Option<Output> {
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"))
        .args(line.split_whitespace())
        .args(more)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("it needs root") {
        println!("skipped: this test needs root or user namespaces, and /dev/net/tun");
        return None;
    }
    Some(output)
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn number(value: &serde_json::Value, pointer: &str) -> f64 {
    value
        .pointer(pointer)
        .and_then(serde_json::Value::as_f64)
        .unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

#[test]
fn kernel_tcp_stays_within_the_link_and_counts_add_up() {
    let Some(output) = lab("tcp --cc cubic --rate 20M --rtt 10ms -t 1.5 --json") else { return };
    let result = json(&output);
    let goodput = number(&result, "/goodput_mbps");
    // 1448 of 1500 bytes are data; a burst at the start may come out of the queue a little later than it went
    // in.
    assert!(goodput > 5.0 && goodput < 20.0 * 1448.0 / 1500.0 * 1.02, "{goodput}");
    let link = |name| number(&result, &format!("/links/0/{name}"));
    assert!(link("offered") >= link("delivered") + link("dropped") + link("lost"));
    assert!(number(&result, "/lateness/delays/count") > 0.0);
    assert!(number(&result, "/flows/0/rtt_ms") >= 10.0);
}

#[test]
fn loss_and_marks_strike_kernel_tcp() {
    let Some(output) =
        lab("tcp --cc bbr --ecn --rate 20M --rtt 10ms --loss 10% --mark 5% --fwd-only -t 1.5 --json")
    else {
        return;
    };
    let result = json(&output);
    let (lost, delivered) = (number(&result, "/links/0/lost"), number(&result, "/links/0/delivered"));
    assert!(lost > 0.0 && lost / (lost + delivered) < 0.25, "{lost} of {delivered}");
    assert_eq!(number(&result, "/links/1/lost"), 0.0);
    // A tenth is lost: there is always something to recover from, at most once for each lost packet.
    let recoveries = number(&result, "/fast_recoveries");
    assert!(recoveries >= 1.0 && recoveries <= lost, "{recoveries} of {lost}");
    assert!(number(&result, "/links/0/marked") > 0.0);
}

#[test]
fn a_file_by_tcp_comes_to_its_end_and_messages_are_timed() {
    let Some(output) = lab(
        "tcp --cc cubic,reno --traffic fixed:200kB,messages:500/20ms --rate 20M --rtt 10ms -t 1.5 --json",
    ) else {
        return;
    };
    let result = json(&output);
    assert!(number(&result, "/flows/0/completion_seconds") < 1.5);
    assert_eq!(number(&result, "/flows/0/received_bytes"), 200_000.0);
    assert!(number(&result, "/flows/1/message_delay/count") > 20.0);
}

#[test]
fn two_programs_meet_over_the_link() {
    let more = [
        "--server",
        "sleep 30",
        "--client",
        "ls /sys/class/net; cat /proc/net/dev; echo '{\"goodput_mbps\": 4.5}'; exit 3",
    ];
    let Some(output) = lab_with("bridge --json", &more) else { return };
    let result = json(&output);
    assert_eq!(number(&result, "/exit_status"), 3.0);
    assert_eq!(number(&result, "/outcome/goodput_mbps"), 4.5);
    let text = result.pointer("/output").and_then(serde_json::Value::as_str).unwrap();
    assert!(text.contains("lab0"), "inside the namespace: {text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("status 3"));
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    // The length of the sleep is how its process is found.
    let (server, client) = ("sleep 98765.25 & sleep 98765.25", "sleep 98765.5 & sleep 98765.5; true");
    if lab_with("bridge", &["--server", "sleep 5", "--client", "true"]).is_none() {
        return;
    }
    let mut lab = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"))
        .args(["bridge", "--server", server, "--client", client])
        .spawn()
        .unwrap();
    let until = |expected: usize| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while sleepers() != expected && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        sleepers()
    };
    assert_eq!(until(4), 4);
    lab.kill().unwrap();
    lab.wait().unwrap();
    assert_eq!(until(0), 0);
}

/// How many processes named by that test exist.
fn sleepers() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line.starts_with(b"sleep\x0098765.")).count()
}

/// A device that is switched off loses what comes, and what comes later arrives.
#[test]
fn a_device_that_goes_down_does_not_end_the_run() {
    if !Command::new("ping").arg("-V").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no ping");
        return;
    }
    let server = "exec ping -q -i 0.02 {client}";
    let client = "sleep 0.5; ip link set lab0 down; sleep 1; ip link set lab0 up; sleep 0.3; echo '{}'";
    let more = ["--server", server, "--client", client, "--late-max", "10s"];
    let Some(output) = lab_with("bridge --rtt 4ms", &more) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("a device was down: "), "{text}");
    assert!(text.contains("programs late p50"), "{text}");
    // Of programs nothing is known that could stand in a table of flows.
    assert!(!text.contains("sum 0.00") && !text.contains("timeouts"), "{text}");
}

/// Whoever calls it from a script has to see that the figures mean nothing.
#[test]
fn an_invalid_run_is_a_failure() {
    for line in
        ["tcp -t 0.3 --rate 10M --late-max 0", "bridge --server sleep@9 --client sleep@0.1 --late-max 0"]
    {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('@', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(output) = lab_with("", &words) else { return };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.code() == Some(1) && text.contains("INVALID"), "{output:?}");
    }
}

/// A folder with one peer, of which this is the server.
fn folder_with_peer(server: &str, programs: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "title = 't'\nconfigured = 'as {{choice}}'\nprograms = [{programs}]\ninstall = 'apt install it'\n\
        choices = ['slow', 'fast']\nserver = '''{server}'''\nclient = 'sleep $DURATION'\n\
        [result]\nfrom = 'server'\nmbps = '/mbps'\nbytes = '/bytes'\n"
    );
    std::fs::write(folder.path().join("p.toml"), text).unwrap();
    folder
}

#[test]
fn a_peer_is_run_with_its_choice_and_read() {
    let server =
        "while :; do echo '{\"mbps\": 3.5, \"bytes\": 1000, \"how\": \"'$CHOICE'\"}'; sleep 0.02; done";
    let folder = folder_with_peer(server, "'sh'");
    let peers = ["--peers", folder.path().to_str().unwrap()];
    let Some(output) = lab_with("peer p:fast -t 0.4 --runs 2 --json", &peers) else { return };
    let result = json(&output);
    assert_eq!(result.as_array().unwrap().len(), 2, "{output:?}");
    assert_eq!(number(&result, "/1/goodput_mbps"), 3.5);
    assert_eq!(number(&result, "/1/flows/0/received_bytes"), 1000.0);
    assert_eq!(result.pointer("/0/flows/0/name").and_then(serde_json::Value::as_str), Some("p:fast"));
}

/// A file of somebody else's is opened to be run: nothing in it may be a command.
#[test]
fn no_experiment_file_runs_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let (mark, file) = (folder.path().join("mark"), folder.path().join("x.toml"));
    std::fs::create_dir(folder.path().join("peers")).unwrap();
    let peer = "has_more_choices = true\ntitle = 't'\nconfigured = 'c'\ninstall = 'i'\nchoices = ['a']\n\
        server = 'echo $CHOICE'\nclient = 'echo $CHOICE'\n[result]\nfrom = 'client'\nmbps = '/m'\n";
    std::fs::write(folder.path().join("peers/p.toml"), peer).unwrap();
    let command = format!("$(touch {})", mark.display());
    let sender = format!("peer-p:a{command}");
    let experiments = [
        format!("title='t'\nduration='200ms'\n[[flow]]\nsender='{sender}'\n"),
        format!("title='t'\nduration='200ms'\n[[flow]]\nsender='peer-p'\n[sweep]\nsender=['{sender}']\n"),
        format!("title='t'\nduration='200ms'\n[[flow]]\nsender='peer-p{command}'\n"),
        format!("title='t'\nduration='200ms'\n[[flow]]\nsender='tcp-cubic{command}'\n"),
        format!("title='t'\nduration='200ms'\n[link]\nrate_trace='/{command}'\n[[flow]]\nsender='peer-p'\n"),
    ];
    for text in experiments {
        std::fs::write(&file, &text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_fulmar-lab")).arg("run").arg(&file).output().unwrap();
        assert!(!output.status.success() && !mark.exists(), "{text}\n{output:?}");
    }
}

#[test]
fn a_peer_that_says_nothing_is_no_result_and_one_that_is_missing_says_how_to_get_it() {
    let silent = folder_with_peer("sleep 9", "'sh'");
    let Some(output) = lab_with("peer p -t 0.2", &["--peers", silent.path().to_str().unwrap()]) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("INVALID") && text.contains("no goodput was printed"), "{text}");
    let missing = folder_with_peer("sleep 9", "'no-such-program'");
    let output = lab_with("peer p -t 0.2", &["--peers", missing.path().to_str().unwrap()]).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("needs no-such-program: apt install it"), "{errors}");
}

/// Fulmar's copy of a file beside the kernel's TCP, each over a path of its own.
#[test]
fn the_demo_shows_fulmar_beside_the_kernels_tcp() {
    // Longer than the second after which TCP tries again to connect: the path is the same each time, and may
    // lose that.
    let path = "--rate 50M --rtt 10ms --loss 5 --size 16M";
    let Some(output) = lab(&format!("demo --json --tcp=cubic,reno {path}")) else { return };
    let report = json(&output);
    let runs = report["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|run| run["profile"].as_str().unwrap()).collect();
    assert_eq!(names, ["auto", "tcp-cubic", "tcp-reno"]);
    assert_eq!(runs[0]["is_complete"], true);
    for tcp in &runs[1..] {
        assert!(number(tcp, "/bytes") > 0.0 && number(tcp, "/sender/data_segments") > 0.0, "{tcp}");
        assert!(number(tcp, "/path/lost_packets") > 0.0, "a path of its own that loses: {tcp}");
    }
    let refused = lab("demo --tcp=nothing --size 1k").unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("congestion control 'nothing'"), "{why}");
}
