//! What happens where nobody is, or somebody else.

use crate::common::{Folder, Home, Server};

#[test]
fn nobody_there() {
    let (home, here) = (Home::new(), Folder::new());
    here.write("f", 10, 1);
    // A socket that is bound and never read: nothing answers, and nothing else gets the port meanwhile.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let cp = ["cp", "--connect-timeout", "1", "-p", &port, &here.arg("f"), "127.0.0.1:"];
    home.run(&cp).fails_with(3).says("does not answer");
    home.run(&["perf", "--connect-timeout", "1", "-c", "127.0.0.1", "-p", &port])
        .fails_with(3)
        .says("does not answer");
}

#[test]
fn a_closed_port_is_said_to_be_one() {
    let (home, here) = (Home::new(), Folder::new());
    here.write("f", 10, 1);
    let port = {
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        nobody.local_addr().unwrap().port().to_string()
    };
    home.run(&["cp", "-p", &port, &here.arg("f"), "127.0.0.1:"]).fails_with(3).says("nobody listens");
}

#[test]
fn who_is_waited_for_is_said_before_patience_ends() {
    let (home, here) = (Home::new(), Folder::new());
    here.write("f", 10, 1);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let f = here.arg("f");
    let cp = ["cp", "--connect-timeout", "3", "-p", &port, &f, "127.0.0.1:"];
    let waited_for = format!("No answer from 127.0.0.1:{port} yet");
    home.run(&cp).fails_with(3).says(&waited_for);
    let quiet = home.run(&[&cp[..], &["--quiet"]].concat()).fails_with(3);
    assert!(!quiet.stderr().contains(&waited_for));
}

#[test]
fn a_port_in_the_place_of_a_path_is_said_to_be_one() {
    let (home, here) = (Home::new(), Folder::new());
    here.write("f", 10, 1);
    home.run(&["cp", &here.arg("f"), "127.0.0.1:4800:"]).fails_with(2).says("-p 4800");
}

#[test]
fn a_log_that_goes_into_a_file_has_no_colours() {
    let (home, there) = (Home::new(), Folder::new());
    let server = Server::start({
        let root = there.path().to_str().unwrap();
        let mut command = home.command(&["serve", "--json", "-l", "127.0.0.1:0", "-r", root]);
        command.env("RUST_LOG", "debug");
        command
    });
    home.run(&["cp", "-p", &server.port(), "127.0.0.1:missing", &there.arg("x")]).fails_with(5);
    let mut server = server;
    server.kill();
    let log = server.wait().stderr();
    assert!(log.contains("DEBUG"), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
}

#[test]
fn a_name_that_nobody_has() {
    let (home, here) = (Home::new(), Folder::new());
    here.write("f", 10, 1);
    home.run(&["cp", &here.arg("f"), "no-such-host.invalid:"]).fails_with(3).says("no-such-host.invalid");
}

#[test]
fn a_port_that_is_taken() {
    let (home, there) = (Home::new(), Folder::new());
    let server = home.serve(there.path());
    let address = server.address.to_string();
    home.run(&["serve", "--listen", &address]).fails_with(3).says("in use");
}

#[test]
fn the_wrong_service() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", 10, 1);
    let copies = home.serve(there.path());
    home.run(&["perf", "-c", "127.0.0.1", "-p", &copies.port()]).fails_with(1).says("another service");
    let measures = Server::start(home.command(&["perf", "-s", "-p", "0", "--json"]));
    home.run(&["cp", "-p", &measures.port(), &here.arg("f"), "127.0.0.1:"])
        .fails_with(1)
        .says("another service");
}

#[test]
fn a_root_that_is_not_there() {
    Home::new()
        .run(&["serve", "--listen", "127.0.0.1:0", "--root", "/no/such/folder"])
        .fails_with(5)
        .says("/no/such");
}

#[test]
fn the_command_line_explains_itself() {
    let home = Home::empty();
    home.run(&["--help"]).success().says("Exit codes").says("FULMAR_HOME");
    home.run(&["cp"]).fails_with(2).says("Usage");
    home.run(&["perf", "-s", "-c", "x"]).fails_with(2);
    home.run(&["perf", "-c", "x", "--size", "9"]).fails_with(2);
    home.run(&["serve", "--listen", "nowhere"]).fails_with(2);
    home.run(&["cp", "--profile", "vegas", "a", "h:"]).fails_with(2).says("auto");
    home.run(&["completions", "bash"]).success().says("fulmar");
    home.run(&["manual"]).success().says(".TH").says("perf");
}
