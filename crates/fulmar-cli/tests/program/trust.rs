//! Who is let in, and who is believed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{Folder, Home, PATIENCE, Server};

#[test]
fn keygen_makes_a_key_once_and_shows_it() {
    let home = Home::empty();
    let first = home.run(&["keygen", "--json"]).success().json();
    let again = home.run(&["keygen", "--json"]).success().json();
    assert_eq!(first["public_key"], again["public_key"]);
    assert_eq!((&first["is_new"], &again["is_new"]), (&true.into(), &false.into()));
    assert!(first["fingerprint"].as_str().unwrap().starts_with("SHA256:"));
    let file = first["file"].as_str().unwrap();
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o077, 0, "for its owner only");
    home.run(&["keygen"]).success().says("fulmar-ed25519 ");
}

#[test]
fn a_client_that_is_not_known_is_refused_and_told_how_to_get_in() {
    let (alice, bob, here, there) = (Home::new(), Home::new(), Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    let server = alice.serve(there.path());
    let copy = || bob.run(&["cp", "--accept-new", "-p", &server.port(), &here.arg("f"), "127.0.0.1:"]);
    copy().fails_with(4).says("authorized_keys").says(&bob.public_key()[..40]);
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0);

    alice.authorize(&bob);
    copy().success();
    assert!(there.join("f").exists());
}

#[test]
fn a_server_that_is_not_known_is_refused_where_nobody_can_be_asked() {
    let (alice, bob, here, there) = (Home::new(), Home::new(), Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    alice.authorize(&bob);
    let server = alice.serve(there.path());
    let port = server.port();
    let copy = |more: &[&str]| bob.run(&[&["cp", "-p", &port, &here.arg("f"), "127.0.0.1:"], more].concat());
    copy(&[]).fails_with(4).says("SHA256:").says("--accept-new");
    assert!(!there.join("f").exists());

    copy(&["--accept-new"]).success();
    copy(&[]).success();
    let known = fs::read_to_string(bob.path().join("known_hosts")).unwrap();
    assert!(known.contains(&format!("127.0.0.1:{port} fulmar-ed25519 ")), "{known}");
}

#[test]
fn a_server_whose_key_has_changed_is_never_trusted() {
    let (alice, mallory, bob) = (Home::new(), Home::new(), Home::new());
    let (here, there) = (Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    alice.authorize(&bob);
    mallory.authorize(&bob);
    let mut server = alice.serve(there.path());
    let (port, address) = (server.port(), server.address.to_string());
    let copy = || bob.run(&["cp", "--accept-new", "-p", &port, &here.arg("f"), "127.0.0.1:"]);
    copy().success();
    server.kill();
    fs::remove_file(there.join("f")).unwrap();

    let _other = mallory.serve_at(there.path(), &address, &[]);
    copy().fails_with(4).says("HAS CHANGED");
    assert!(!there.join("f").exists());
}

/// `known_hosts` goes before everything: a server there that comes with this machine's own key is another
/// one.
#[test]
fn the_own_key_is_not_believed_where_another_is_known() {
    let (alice, bob, here, there) = (Home::new(), Home::new(), Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    let server = bob.serve(there.path());
    fs::write(
        bob.path().join("known_hosts"),
        format!("127.0.0.1:{} {}\n", server.port(), alice.public_key()),
    )
    .unwrap();
    bob.run(&["cp", "-p", &server.port(), &here.arg("f"), "127.0.0.1:"]).fails_with(4).says("HAS CHANGED");
    assert!(!there.join("f").exists());
}

#[test]
fn a_list_of_clients_that_others_may_write_to_is_refused() {
    let (alice, bob, here, there) = (Home::new(), Home::new(), Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    alice.authorize(&bob);
    let list = alice.path().join("authorized_keys");
    let set_mode = |mode| fs::set_permissions(&list, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o666);
    let serve = ["serve", "-l", "127.0.0.1:0", "-r", there.path().to_str().unwrap()];
    alice.run(&serve).fails_with(5).says("others may write");
    set_mode(0o644);
    let server = alice.serve(there.path());
    let copy = || bob.run(&["cp", "--accept-new", "-p", &server.port(), &here.arg("f"), "127.0.0.1:"]);
    copy().success();
    set_mode(0o666);
    copy().fails_with(4);
}

/// Whoever reads a connection's id on the way may ask anybody for a reset with it: only the server itself may
/// have the answer that the client believes, and it has the same after a restart.
#[test]
fn nobody_answers_for_another_server() {
    let (home, there) = (Home::new(), Folder::new());
    let reset_token = |server: &Server| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut sniffed = [0x55; 100];
        sniffed[0] = 0x40;
        socket.send_to(&sniffed, ("127.0.0.1", server.address.port())).unwrap();
        let mut answer = [0; 200];
        let length = socket.recv(&mut answer).unwrap();
        answer[length - 16..length].to_vec()
    };
    let perf = |port: &str| Server::start(home.command(&["perf", "-s", "-p", port, "--json"]));
    let (mut copies, measures, more) = (home.serve(there.path()), perf("0"), home.serve(there.path()));
    let token = reset_token(&copies);
    let address = copies.address.to_string();
    assert!(token != reset_token(&more) && token != reset_token(&measures));
    copies.kill();
    let again = home.serve_at(there.path(), &address, &[]);
    assert_eq!(reset_token(&again), token, "clients of a server that was restarted hear of it");
    drop(again);
    let other = Home::empty();
    fs::copy(home.path().join("identity"), other.path().join("identity")).unwrap();
    assert_ne!(
        reset_token(&other.serve_at(there.path(), &address, &[])),
        token,
        "the same identity elsewhere"
    );
}

#[test]
fn one_key_on_both_sides_is_enough() {
    let (laptop, desktop, here, there) = (Home::new(), Home::empty(), Folder::new(), Folder::new());
    let identity = laptop.run(&["keygen", "--json"]).json()["file"].as_str().unwrap().to_owned();
    let name = std::path::Path::new(&identity).file_name().unwrap().to_owned();
    fs::copy(&identity, desktop.path().join(name)).unwrap();
    here.write("f", 1000, 1);
    let server = desktop.serve(there.path());
    laptop.run(&["cp", "-p", &server.port(), &here.arg("f"), "127.0.0.1:"]).success();
    assert!(there.join("f").exists());
}

#[test]
fn a_key_that_others_may_read_is_said_to_be_so() {
    let home = Home::new();
    let file = home.run(&["keygen", "--json"]).json()["file"].as_str().unwrap().to_owned();
    fs::write(&file, "no key at all").unwrap();
    home.run(&["keygen"]).fails_with(5).says("identity");
}

#[test]
fn secrets_are_written_where_the_environment_says() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    let server = home.serve(there.path());
    let mut copy = home.command(&["cp", "-p", &server.port(), &here.arg("f"), "127.0.0.1:"]);
    assert!(copy.env("SSLKEYLOGFILE", here.join("keys")).status().unwrap().success());
    assert!(fs::read_to_string(here.join("keys")).unwrap().contains("CLIENT_TRAFFIC_SECRET_0 "));
}
