//! What can be seen of a connection: its qlog, and its packets in Wireshark.

use std::process::Stdio;

use serde_json::Value;

use crate::common::{Folder, Home, Server, wait_until};
#[cfg(target_os = "linux")]
use crate::room::{Room, has};

#[test]
fn every_connection_has_its_log() {
    let (home, folder) = (Home::new(), Folder::new());
    folder.write("file", 300_000, 1);
    std::fs::create_dir(folder.join("served")).unwrap();
    let server = home.serve(&folder.join("served"));
    let logs = folder.arg("logs");
    home.run(&[
        "--qlog",
        &logs,
        "cp",
        "--accept-new",
        "--port",
        &server.port(),
        &folder.arg("file"),
        "127.0.0.1:",
    ])
    .success();
    let files: Vec<_> = std::fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    assert!(file.to_str().unwrap().ends_with("_client.sqlog"));
    let text = std::fs::read_to_string(file).unwrap();
    let records: Vec<Value> = text.split('\x1e').skip(1).map(|r| serde_json::from_str(r).unwrap()).collect();
    assert_eq!(records[0]["serialization_format"], "application/qlog+json-seq");
    let named = |name: &str| records.iter().filter(|r| r["name"] == name).count();
    assert_eq!(named("fulmar:connection_started"), 1);
    assert!(named("quic:recovery_metrics_updated") >= 1);
    assert!(named("fulmar:coding_metrics_updated") >= 1);
    let times: Vec<f64> = records[1..].iter().map(|r| r["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// Frames that Wireshark must show, decrypted, and in whose packets.
#[cfg(target_os = "linux")]
#[test]
fn wireshark_reads_packets() {
    let Some(room) = Room::new("") else { return };
    if !has("tshark") || !has("dumpcap") {
        return;
    }
    let (home, folder) = (Home::new(), Folder::new());
    folder.write("file", 20_000, 1);
    std::fs::create_dir(folder.join("served")).unwrap();
    let served = folder.arg("served");
    let serve = home.command(&["serve", "--json", "--listen", "127.0.0.1:0", "--root", &served]);
    let server = Server::start(room.inside(&serve));
    let dump = folder.arg("dump.pcap");
    let mut capture =
        room.shell(&format!("exec dumpcap -q -i lo -f udp -w {dump}")).stderr(Stdio::null()).spawn().unwrap();
    // A capture says on no pipe when it has begun: a packet to a port where nobody is shows it.
    wait_until("packets are captured", || {
        let knock =
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))";
        let _ = room.shell(&format!("python3 -c \"{knock}\"")).status();
        std::fs::metadata(&dump).is_ok_and(|file| file.len() > 1000)
    });
    let mut copy =
        home.command(&["cp", "--accept-new", "--port", &server.port(), &folder.arg("file"), "127.0.0.1:"]);
    let keys = folder.arg("keys");
    assert!(room.inside(copy.env("SSLKEYLOGFILE", &keys)).status().unwrap().success());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/wireshark/fulmar.lua");
    let mut text = String::new();
    wait_until("the last packet is in the dump", || {
        let read = format!("tshark -X lua_script:{script} -o fulmar.keylog:{keys} -r {dump} -V -Y fulmar");
        text = String::from_utf8_lossy(&room.shell(&read).output().unwrap().stdout).into_owned();
        text.contains("Frame: CLOSE")
    });
    capture.kill().unwrap();
    capture.wait().unwrap();
    for words in
        ["Frame: CRYPTO offset 0", "Fulmar Handshake", "Frame: SOURCE 0", "STREAM 0, offset 0", "Frame: ACK"]
    {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    assert!(
        !text.contains("Problem:"),
        "{}",
        text.lines().filter(|l| l.contains("Problem")).collect::<String>()
    );
}
