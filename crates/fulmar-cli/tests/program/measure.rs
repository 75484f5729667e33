//! `fulmar perf` in all its modes, and `fulmar demo`.

use crate::common::{Home, Server};
use serde_json::Value;

fn server(home: &Home, more: &[&str]) -> Server {
    Server::start(home.command(&[&["perf", "-s", "-p", "0", "--json"], more].concat()))
}

fn measure(home: &Home, server: &Server, more: &[&str]) -> Value {
    home.run(&[&["perf", "-c", "127.0.0.1", "-J", "-p", &server.port()], more].concat()).success().json()
}

#[test]
fn bytes_up_and_down_on_one_stream_and_several() {
    let home = Home::new();
    let server = server(&home, &[]);
    for more in [
        &[][..],
        &["-R"],
        &["-P", "5"],
        &["-R", "-P", "5"],
        &["--profile", "cubic"],
        &["-R", "--profile", "newreno"],
    ] {
        let report = measure(&home, &server, &[&["-n", "4M"], more].concat());
        let number =
            |name: &str| report[name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {report}"));
        assert_eq!(report["bytes"], 4 << 20, "{more:?}");
        assert_eq!(report["reverse"], more.contains(&"-R"));
        assert_eq!(report["streams"], if more.contains(&"-P") { 5 } else { 1 });
        let goodput = number("bytes") * 8.0 / 1e6 / number("seconds");
        assert!((number("goodput_mbps") / goodput - 1.0).abs() < 1e-6, "{report}");
        assert!(number("wire_bytes") > number("bytes") && number("wire_ratio") < 2.0, "{report}");
        assert!(number("loss_percent") >= 0.0 && number("repair_symbols") >= 0.0);
        assert!(report["cpu"]["local_seconds"].as_f64().unwrap() > 0.0);
        assert!(report["cpu"]["remote_seconds"].as_f64().unwrap() > 0.0);
        let profile = more.iter().position(|m| *m == "--profile").map_or("auto", |at| more[at + 1]);
        assert_eq!(report["profile"], profile);
        assert_eq!(server.event()["test"]["is_reverse"], more.contains(&"-R"));
    }
}

/// What the other way costs is measured by the same words.
#[test]
fn a_path_is_measured_by_tcp() {
    let (home, address) = (Home::new(), crate::tcp::free_address());
    let server = Server::start(home.command(&["perf", "-s", "--listen", &address, "--tcp", "--json"]));
    assert_eq!(server.first["tcp"], address);
    for more in [&[][..], &["-R"]] {
        let report = measure(&home, &server, &[&["-n", "4M", "--way", "tcp"], more].concat());
        assert_eq!(report["bytes"], 4 << 20);
    }
    home.run(&["perf", "-c", "127.0.0.1", "--tcp"]).fails_with(2).says("--way tcp");
}

#[test]
fn time_with_intervals() {
    let home = Home::new();
    let server = server(&home, &[]);
    for more in [&[][..], &["-R"]] {
        let report = measure(&home, &server, &[&["-t", "0.5", "-i", "0.1"], more].concat());
        let intervals = report["intervals"].as_array().unwrap();
        assert!(intervals.len() >= 2, "{report}");
        assert_eq!(intervals.last().unwrap()["bytes_total"], report["bytes"]);
        let sum: u64 = intervals.iter().map(|i| i["bytes"].as_u64().unwrap()).sum();
        assert_eq!(sum, report["bytes"].as_u64().unwrap());
    }
}

#[test]
fn messages_and_their_delays() {
    let home = Home::new();
    let server = server(&home, &[]);
    for more in [&[][..], &["-R"]] {
        let load = ["--messages", "--size", "500", "--interval", "2ms", "-t", "0.5"];
        let report = measure(&home, &server, &[&load[..], more].concat());
        let delays = &report["messages"];
        assert_eq!(delays["count"], 250);
        assert_eq!(delays["clock"]["kind"], "shared", "both ends are on one machine");
        assert_eq!(report["bytes"], 125_000);
        let names = ["min_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"];
        let values = names.map(|name| delays[name].as_f64().unwrap());
        assert!(values[0] >= 0.0 && values.is_sorted(), "{delays}");
    }
}

#[test]
fn tables_for_people() {
    let home = Home::new();
    let server = server(&home, &[]);
    let run = |more: &[&str]| {
        home.run(&[&["perf", "-c", "127.0.0.1", "-p", &server.port()], more].concat()).success()
    };
    run(&["-n", "1M"]).says("Goodput").says("1.0 MiB delivered").says("processor");
    run(&["--messages", "-t", "0.2"]).says("p99.9").says("one clock");
}

#[test]
fn one_test_and_no_more() {
    let home = Home::new();
    let server = server(&home, &["-1"]);
    measure(&home, &server, &["-n", "10K"]);
    server.wait().success();
}

#[test]
fn strangers_measure_nothing() {
    let (home, stranger) = (Home::new(), Home::new());
    let server = server(&home, &[]);
    stranger
        .run(&["perf", "--accept-new", "-c", "127.0.0.1", "-p", &server.port(), "-n", "1K"])
        .fails_with(4);
}

#[test]
fn the_demo_copies_verifies_and_compares() {
    let home = Home::empty();
    let path = ["--rate", "100M", "--rtt", "10ms", "--loss", "5", "--burst", "2"];
    let report = home.run(&[&["demo", "--json", "--size", "1M"], &path[..]].concat()).success().json();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!((&runs[0]["profile"], &runs[1]["profile"]), (&"auto".into(), &"cubic".into()));
    assert_eq!(runs[0]["is_complete"], true);
    assert_eq!(runs[0]["bytes"], 1 << 20);
    assert_eq!(runs[0]["blake3"].as_str().unwrap().len(), 64);
    assert!(runs[0]["path"]["lost_packets"].as_u64().unwrap() > 0, "the path loses: {report}");
    // (1 - p) x capacity x payload share.
    assert!((report["limit_mbps"].as_f64().unwrap() - 100.0 * 0.95 * 0.955).abs() < 1e-6);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "the demo leaves no keys behind");
}

#[test]
fn the_demo_without_a_terminal_and_with_a_file() {
    let home = Home::empty();
    let folder = crate::common::Folder::new();
    folder.write("real file", 300_000, 1);
    let arguments =
        ["demo", "--file", &folder.arg("real file"), "--loss", "0", "--rtt", "2", "--against", "none"];
    home.run(&arguments).success().says("no loss").says("Verified").says("of the limit");
    home.run(&["demo", "--file", "/no/such/file"]).fails_with(5).says("/no/such/file");
    home.run(&["demo", "--loss", "60", "--burst", "1.2"]).fails_with(2);
}

/// `serve` and `gateway` have it; here it was an error that named `--client`.
#[test]
fn a_server_listens_where_it_is_told() {
    let home = Home::new();
    let server = Server::start(home.command(&["perf", "-s", "--listen", "127.0.0.1:0", "--json"]));
    home.run(&["perf", "-c", "127.0.0.1", "-p", &server.port(), "-n", "100K", "-J"]).success();
    home.run(&["perf", "-s", "--listen", ":0", "-p", "0"]).fails_with(2);
    home.run(&["perf", "-c", "127.0.0.1", "--listen", ":0"]).fails_with(2);
}

/// It was here until the laboratory came to stand above the program.
#[test]
fn who_asks_for_the_kernels_tcp_is_told_where_it_is() {
    let home = Home::empty();
    home.run(&["demo", "--tcp=bbr"]).fails_with(2).says("fulmar-lab demo --tcp=bbr").says("make demo-tcp");
    home.run(&["demo", "--tcp"]).fails_with(2).says("fulmar-lab demo --tcp=cubic");
}

/// The client named the server's congestion control: `dfcp` sends without any, for as long as it is let.
#[test]
fn a_server_sends_with_what_its_owner_allows() {
    let home = Home::new();
    let measure = |server: &Server, profile: &str| {
        let port = server.port();
        home.run(&["perf", "-c", "127.0.0.1", "-p", &port, "-R", "-n", "100K", "-J", "--profile", profile])
    };
    let server = Server::start(home.command(&["perf", "-s", "-p", "0", "--json"]));
    for profile in ["dfcp:rate=2000", "no-cc", "cubic:wmin=900"] {
        // Served, with the server's own.
        assert_eq!(measure(&server, profile).success().json()["profile"], "auto", "{profile}");
    }
    assert_eq!(measure(&server, "cubic").success().json()["profile"], "cubic");
    let command = home.command(&["perf", "-s", "-p", "0", "--json", "--allow-profiles", "no-cc"]);
    let server = Server::start(command);
    assert_eq!(measure(&server, "no-cc").success().json()["profile"], "no-cc");
    home.run(&["serve", "--allow-profiles", "vegas"]).fails_with(2).says("vegas");
}
