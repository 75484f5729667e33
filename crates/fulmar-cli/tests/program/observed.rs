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
    let named = |name: &str| records.iter().filter(|r| r["name"] == name).collect::<Vec<_>>();
    assert_eq!(named("fulmar:connection_started").len(), 1);
    assert_eq!(named("fulmar:connection_closed").len(), 1);
    assert_eq!(named("fulmar:events_omitted").len(), 0);
    assert!(named("quic:recovery_metrics_updated").len() >= 10);
    // Each packet has its line: the lines agree with what the connection counted.
    let counts = &named("fulmar:coding_metrics_updated").last().unwrap()["data"];
    let count = |name: &str| counts[name].as_u64().unwrap();
    let bytes =
        |name: &str| named(name).iter().map(|r| r["data"]["raw"]["length"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(bytes("fulmar:packet_sent"), count("sent_bytes"));
    let received = named("fulmar:packet_received").len() as u64;
    assert_eq!(received, count("opened_packets") - count("duplicate_packets"));
    assert_eq!(named("fulmar:packet_lost").len() as u64, count("lost_packets"));
    assert!(bytes("fulmar:packet_sent") > 300_000 && received > 10);
    // No number twice, none lost that was not sent.
    let numbers = |name: &str| -> Vec<_> {
        let of = |r: &Value| {
            let header = &r["data"]["header"];
            (header["packet_type"].as_str().unwrap().to_owned(), header["packet_number"].as_u64().unwrap())
        };
        named(name).into_iter().map(of).collect()
    };
    let sent: std::collections::BTreeSet<_> = numbers("fulmar:packet_sent").into_iter().collect();
    assert_eq!(sent.len(), named("fulmar:packet_sent").len());
    assert!(numbers("fulmar:packet_lost").iter().all(|number| sent.contains(number)));
    let symbols =
        named("fulmar:packet_sent").into_iter().filter(|r| r["data"]["symbol"]["kind"] == "source").count();
    assert_eq!(symbols as u64, count("source_symbols"));
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

#[test]
fn whoever_has_read_enough_hears_no_complaint() {
    let home = Home::empty();
    let mut program =
        home.command(&["profiles", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(program.stdout.take());
    let output = program.wait_with_output().unwrap();
    assert!(!output.status.success(), "not all was read");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
