//! Rates that a process keeps, as its command line or config.toml say.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::{Folder, Home};

/// Two seconds and a half at 8 Mb/s.
const FILE_BYTES: usize = 2_500_000;
/// What it takes at least, if some of it may leave at once.
const AT_LEAST: Duration = Duration::from_millis(2300);

#[test]
fn a_rate_is_kept_each_way_and_changed_by_reload() {
    let (host, guest, here, there) = (Home::new(), Home::new(), Folder::new(), Folder::new());
    host.authorize(&guest);
    let config = host.path().join("config.toml");
    fs::write(&config, "limit_up = \"8M\"\n").unwrap();
    here.write("f", FILE_BYTES, 1);
    there.write("f", FILE_BYTES, 2);
    let server = host.serve(there.path());
    let (up, down) = (here.arg("f"), here.arg("down"));
    let copy = |more: &[&str]| {
        let begin = Instant::now();
        guest.run(&[&["cp", "--accept-new", "-p", &server.port()], more].concat()).success();
        let _ = fs::remove_file(here.join("down"));
        let _ = fs::remove_file(there.join("up"));
        begin.elapsed()
    };
    let (fetch, give) = (["127.0.0.1:f", &down], [up.as_str(), "127.0.0.1:up"]);
    let took = copy(&fetch);
    assert!(took > AT_LEAST, "{took:?} from a server that sends at 8 Mb/s");
    host.run(&["reload"]).success().says("authorized_keys was read again");
    fs::write(&config, "limit = \"fast\"\n").unwrap();
    host.run(&["reload"]).fails_with(1).says("config.toml");
    fs::write(&config, "limit_up = \"800M\"\n").unwrap();
    host.run(&["reload"]).success().says("limits: up 800 Mb/s, down no limit");
    for (way, more) in
        [(&fetch, ["--limit-down", "8M"]), (&give, ["--limit-up", "8M"]), (&fetch, ["--limit", "8M"])]
    {
        let took = copy(&[&more[..], &way[..]].concat());
        assert!(took > AT_LEAST, "{took:?} with {more:?}");
    }
    // Two clients share it.
    fs::write(&config, "limit_down = \"8M\"\n").unwrap();
    host.run(&["reload"]).success().says("limits: up no limit, down 8.0 Mb/s");
    let begin = Instant::now();
    let (one, other) = (
        guest.start(&[&["cp", "-p", &server.port()], &[up.as_str(), "127.0.0.1:a"][..]].concat()),
        guest.start(&[&["cp", "-p", &server.port()], &[up.as_str(), "127.0.0.1:b"][..]].concat()),
    );
    one.wait().success();
    other.wait().success();
    assert!(
        begin.elapsed() > 2 * AT_LEAST,
        "{:?}: the limit is the server's, not a connection's",
        begin.elapsed()
    );
}
