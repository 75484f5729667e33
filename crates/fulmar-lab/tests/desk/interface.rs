//! What needs no rights: who is let in, what is refused, runs in virtual time, and that every page sees the
//! same.

use serde_json::{Value, json};

use super::client::{Desk, lab, root};

fn small() -> Value {
    json!({
        "kind": "test", "driver": "virtual", "transports": ["auto", "cubic"],
        "path": { "forward": { "rate": "10M", "delay": "5ms", "loss": "2%" }, "backward": null },
        "amount": { "bytes": 200_000 }, "transfers": 3
    })
}

#[test]
fn only_who_has_the_token_is_let_in_and_no_other_site() {
    let desk = Desk::operator();
    let bearer = format!("Bearer {}", desk.token);
    let right = ("authorization", bearer.as_str());
    let status = |headers: &[(&str, &str)]| desk.ask("GET", "/api/state", headers, b"").status;
    assert_eq!(status(&[right]), 200);
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("authorization", "Bearer wrong")]), 401);
    assert_eq!(status(&[right, ("origin", "http://evil.example")]), 403);
    assert_eq!(status(&[right, ("host", "evil.example")]), 403);
    assert_eq!(status(&[right, ("sec-fetch-site", "cross-site")]), 403);
    let own = format!("http://{}", desk.address);
    assert_eq!(status(&[right, ("origin", &own)]), 200);

    assert_eq!(desk.ask("GET", "/", &[], b"").status, 403);
    assert_eq!(desk.ask("GET", "/?token=wrong", &[], b"").status, 403);
    let admitted = desk.ask("GET", &format!("/?token={}", desk.token), &[], b"");
    let cookie = admitted.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(status(&[("cookie", cookie)]), 200);
    let page = desk.ask("GET", "/", &[("cookie", cookie)], b"");
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
}

/// Whoever opens the page may start runs, and nothing else: no name of a transport is a command.
#[test]
fn no_word_of_the_page_is_a_command() {
    let desk = Desk::operator();
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    for sender in [
        format!("peer-fulmar:auto$(touch {})", mark.display()),
        format!("peer-fulmar:auto`touch {}`", mark.display()),
        format!("peer-fulmar:auto;touch {};", mark.display()),
        format!("peer-fulmar:auto\ntouch {}", mark.display()),
        "peer-fulmar:--help".to_owned(),
        "peer-../peers/fulmar:auto".to_owned(),
    ] {
        let mut spec = small();
        (spec["driver"], spec["transports"], spec["amount"]) =
            (json!("real"), json!([sender]), json!({ "seconds": 1.0 }));
        for path in ["/api/check", "/api/runs", "/api/experiments/write"] {
            let answer = desk.send("POST", path, &spec.to_string());
            assert_eq!(answer.status, 422, "{path} {sender}: {}", answer.text());
            assert_eq!(answer.json()["error"]["field"], "transports.0");
        }
        let word = json!(sender);
        let file = format!("title = 't'\nduration = '1s'\n[[flow]]\nsender = {word}\n");
        let answer = desk.send("POST", "/api/experiments/read", &file);
        assert_eq!(answer.status, 422, "{sender}: {}", answer.text());
    }
    assert!(!mark.exists());
}

/// A file of 2 kB took 3.5 GB in 20 s, and the page was dead meanwhile.
#[test]
fn an_experiment_that_would_take_all_memory_is_refused_at_once() {
    let desk = Desk::operator();
    let values = vec!["'1%'"; 60].join(",");
    let keys = ["loss", "back_loss", "mark", "duplicate", "corrupt", "back_mark"];
    let sweep: String = keys.iter().map(|key| format!("{key} = [{values}]\n")).collect();
    let text = format!("title = 't'\nduration = '1s'\n[[flow]]\nsender = 'auto'\n[sweep]\n{sweep}");
    let answer = desk.send("POST", "/api/experiments/read", &text);
    assert!(answer.status == 422 && answer.text().contains("more than 10000 cells"), "{}", answer.text());
    let answer = desk.send("POST", "/api/experiments/read", &text.replace("1%", &"9".repeat(600)));
    assert_eq!(answer.status, 413);
}

/// Connections on which half a request is said, more than the program may have descriptors.
#[test]
fn half_requests_shut_nobody_out() {
    use std::io::{Read, Write};
    let desk = Desk::operator();
    let mut half: Vec<std::net::TcpStream> = Vec::new();
    for _ in 0..300 {
        let mut stream = std::net::TcpStream::connect(&desk.address).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        stream.write_all(b"GET /api/state HTTP/1.1\r\nhost: x\r\n").unwrap();
        half.push(stream);
        assert!(!half.len().is_multiple_of(100) || desk.get("/api/state").status == 200);
    }
    // The oldest have gone, and those that stay do not stay for long.
    for index in [0, 100, 299] {
        let mut left = Vec::new();
        let ended = half[index].read_to_end(&mut left);
        let waits = ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!waits && !left.starts_with(b"HTTP/1.1 200"), "{index}: {ended:?}");
    }
    assert_eq!(desk.get("/api/state").status, 200);
}

#[test]
fn what_is_impossible_is_said_with_its_field_and_starts_nothing() {
    let desk = Desk::operator();
    let refused = |path: &str, value: Value| {
        let mut spec = small();
        *spec.pointer_mut(path).unwrap() = value;
        let answer = desk.send("POST", "/api/runs", &spec.to_string());
        assert_eq!(answer.status, 422, "{}", answer.text());
        answer.json()["error"]["field"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(refused("/path/forward/loss", json!("0.05")), "path.forward.loss");
    assert_eq!(refused("/transports/1", json!("vegas")), "transports.1");
    assert_eq!(refused("/amount/bytes", json!(0)), "amount.bytes");
    assert_eq!(refused("/transports/0", json!("peer-fulmar:auto$(id)")), "transports.0");
    assert_eq!(refused("/kind", json!("demo")), "driver");
    assert_eq!(desk.send("POST", "/api/runs", "{").status, 400);
    assert_eq!(desk.send("POST", "/api/runs", "{}").status, 422);
    assert_eq!(desk.send("POST", "/api/runs", &"x".repeat(2 << 20)).status, 413);
    assert_eq!(desk.get("/api/runs/nothing").status, 404);
    assert_eq!(desk.get("/api/runs/..%2F..%2Fetc/transfers.csv").status, 404);
    assert_eq!(desk.get("/api/experiments/..%2FCargo").status, 404);
    for (method, path, status) in
        [("GET", "/api/nowhere", 404), ("PUT", "/api/runs", 405), ("GET", "/api/runs/x/samples?from=x", 400)]
    {
        let answer = desk.send(method, path, "");
        assert_eq!((answer.status, answer.json()["error"]["message"].is_string()), (status, true), "{path}");
    }
    assert_eq!(desk.send("POST", "/api/images?name=x", "<svg/>").status, 415);
    assert_eq!(desk.get("/api/runs").json(), json!([]));
}

#[test]
fn a_run_is_watched_by_two_taken_home_and_there_after_a_restart() {
    let mut desk = Desk::operator();
    // Who has been told how things stand is told of all that comes after.
    let watchers = [desk.events(), desk.events()].map(|mut events| {
        assert_eq!(events.next().unwrap().0, "state");
        events
    });
    let id = desk.run(&small());
    let seen = watchers.map(|events| {
        let mut transfers = Vec::new();
        for (name, data) in events {
            if name == "transfer" && data["run"] == id {
                transfers.push(data["transfer"].to_string());
            }
            if name == "run" && data["id"] == id && data["status"] == "done" {
                break;
            }
        }
        transfers
    });
    assert_eq!((seen[0].len(), &seen[0]), (6, &seen[1]));
    let run = desk.finished(&id);
    assert_eq!((&run["status"], run["transfers"].as_array().unwrap().len()), (&json!("done"), 6));
    assert_eq!(run["statistics"][1]["all"]["time_s"]["n"], 3);
    let samples = desk.get(&format!("/api/runs/{id}/samples")).json();
    let count = samples["samples"].as_array().unwrap().len();
    assert!(count > 6 && samples["next"] == count, "{count}");
    let csv = desk.get(&format!("/api/runs/{id}/transfers.csv"));
    assert_eq!(csv.text().lines().count(), 7);
    assert!(csv.header("content-disposition").unwrap().contains(".csv"));
    assert_eq!(desk.send("POST", &format!("/api/runs/{id}/stop"), "").status, 409);

    // The same folder, another program.
    let mut command = lab();
    command.args(["operator", "--listen", "127.0.0.1:0", "--no-open"]);
    let again = Desk::start(command, desk.folder.clone(), None);
    assert_eq!(again.get(&format!("/api/runs/{id}")).json()["transfers"], run["transfers"]);
    assert_eq!(again.get(&format!("/api/runs/{id}/samples")).json()["next"], count);
    assert_eq!(again.send("DELETE", &format!("/api/runs/{id}"), "").status, 204);
    assert_eq!(again.get(&format!("/api/runs/{id}")).status, 404);
    assert!(!again.folder.join(&id).exists());
    desk.child.kill().unwrap();
}

#[test]
fn the_saved_experiment_is_one_that_the_program_runs_with_the_same_outcome() {
    let desk = Desk::operator();
    let id = desk.run(&small());
    let run = desk.finished(&id);
    let toml = desk.get(&format!("/api/runs/{id}/experiment.toml")).text();
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("saved.toml");
    std::fs::write(&file, &toml).unwrap();
    let status = lab().arg("run").arg(&file).arg("--out").arg(temp.path().join("out")).status().unwrap();
    assert!(status.success());
    let lines = std::fs::read_to_string(temp.path().join("out/saved/runs.jsonl")).unwrap();
    let mean = |sender: &str| {
        let runs = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found: Vec<f64> = (runs.filter(|run| run["cell"]["sender"] == sender))
            .map(|run| run["outcome"]["goodput_mbps"].as_f64().unwrap())
            .collect();
        found.iter().sum::<f64>() / found.len() as f64
    };
    for (flow, sender) in ["auto", "cubic"].into_iter().enumerate() {
        let page = run["statistics"][flow]["all"]["goodput_mbps"]["mean"].as_f64().unwrap();
        assert!((page / mean(sender) - 1.0).abs() < 1e-9, "{sender}: {page} and {}", mean(sender));
    }
    let loaded = desk.send("POST", "/api/experiments/read", &toml).json();
    assert_eq!(loaded["specs"][0]["spec"]["transports"], json!(["auto", "cubic"]));
    let wrong = desk.send("POST", "/api/experiments/read", &toml.replace("2%", "0.02"));
    assert!(wrong.status == 422 && wrong.text().contains("experiment.toml:"), "{}", wrong.text());
}

#[test]
fn a_waiting_run_is_taken_from_the_queue_and_one_under_way_stops() {
    let desk = Desk::operator();
    let mut long = small();
    (long["transfers"], long["amount"]) = (json!(1000), json!({ "seconds": 20 }));
    let first = desk.run(&long);
    let second = desk.run(&small());
    let state = desk.until("/api/state", |state| state["running"] == first.as_str());
    assert_eq!(state["queue"], json!([second]));
    assert_eq!(desk.send("DELETE", &format!("/api/runs/{first}"), "").status, 409);
    assert_eq!(
        desk.send("PATCH", &format!("/api/runs/{first}/path"), r#"{"forward":{"loss":"9%"}}"#).status,
        409
    );
    assert_eq!(desk.send("POST", &format!("/api/runs/{second}/stop"), "").status, 202);
    assert_eq!(desk.send("POST", &format!("/api/runs/{first}/stop"), "").status, 202);
    assert_eq!(desk.finished(&first)["status"], "stopped");
    let waited = desk.finished(&second);
    assert_eq!((&waited["status"], &waited["progress"]["done"]), (&json!("stopped"), &json!(0)));
}

/// docs/internals/operator-api.md is what the page is written by: whatever the program says stands in it.
#[test]
fn every_field_that_is_sent_is_described() {
    fn names(value: &Value, found: &mut Vec<String>, free: &[&str]) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                found.push(key.clone());
                // Keys of these are values, not fields.
                if !free.contains(&key.as_str()) {
                    names(value, found, free);
                }
            }),
            Value::Array(items) => items.iter().for_each(|item| names(item, found, free)),
            _ => {}
        }
    }
    let desk = Desk::operator();
    let id = desk.run(&small());
    let run = desk.finished(&id);
    let document = std::fs::read_to_string(root().join("docs/internals/operator-api.md")).unwrap();
    let answers = [
        "/api/state",
        "/api/catalogue",
        "/api/results",
        "/api/images",
        "/api/experiments",
        "/api/experiments/ctcp-loss",
    ];
    let samples = desk.get(&format!("/api/runs/{id}/samples")).json();
    let mut found = Vec::new();
    for answer in answers.map(|path| desk.get(path).json()).iter().chain([&run, &samples]) {
        names(answer, &mut found, &["at"]);
    }
    assert!(found.len() > 100);
    let mut missing: Vec<_> = found.iter().filter(|name| !document.contains(name.as_str())).collect();
    missing.dedup();
    assert!(missing.is_empty(), "{missing:?}");
}
