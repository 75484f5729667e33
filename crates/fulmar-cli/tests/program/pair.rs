//! How keys become known: `fulmar pair` with a code, `fulmar authorize`, and what is said where they are not.

use std::fs;

use crate::common::{Folder, Home, Server};

/// A server that shows a code, and the code.
fn inviting(home: &Home, root: &Folder) -> (Server, String) {
    let server = home.serve_at(root.path(), "127.0.0.1:0", &["--invite"]);
    let code = server.first["invite"].as_str().unwrap().to_owned();
    (server, code)
}

#[test]
fn two_machines_that_do_not_know_each_other_pair_in_two_steps() {
    let (alice, bob, here, there) = (Home::new(), Home::empty(), Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    let (server, code) = inviting(&alice, &there);
    let host = format!("127.0.0.1:{}", server.port());
    bob.run(&["pair", &host, &code.to_uppercase()]).success().says("Paired with");
    bob.run(&["cp", "-p", &server.port(), &here.arg("f"), "127.0.0.1:"]).success();
    assert!(there.join("f").exists());

    let keys = fs::read_to_string(alice.path().join("authorized_keys")).unwrap();
    assert!(keys.contains(&bob.public_key()[..40]), "{keys}");
    let known = fs::read_to_string(bob.path().join("known_hosts")).unwrap();
    assert!(known.contains(&alice.public_key()[..40]), "{known}");
    // The code is used up, and what is not known is not let in any more.
    let mallory = Home::new();
    mallory.run(&["pair", &host, &code]).fails_with(4).says("waits for no code");
}

#[test]
fn a_wrong_code_is_the_only_guess() {
    let (alice, bob, there) = (Home::new(), Home::new(), Folder::new());
    let (server, code) = inviting(&alice, &there);
    let host = format!("127.0.0.1:{}", server.port());
    // A slip in typing is found here, and costs nothing.
    let last = if code.ends_with('0') { "1" } else { "0" };
    let slip = format!("{}{last}", &code[..code.len() - 1]);
    bob.run(&["pair", &host, &slip]).fails_with(2).says("typing mistake");
    bob.run(&["pair", &host, "abc"]).fails_with(2).says("8 letters");

    let other = fulmar_cli::pair::code::Code::draw().unwrap().to_string();
    bob.run(&["pair", &host, &other]).fails_with(4).says("void");
    bob.run(&["pair", &host, &code]).fails_with(4).says("waits for no code");
    assert!(!alice.path().join("authorized_keys").exists());
    assert!(!bob.path().join("known_hosts").exists());
}

/// While a code is waited for, strangers get through the handshake, and no further.
#[test]
fn an_open_invitation_lets_nobody_in_who_does_not_pair() {
    let (alice, bob, here, there) = (Home::new(), Home::new(), Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    let (server, code) = inviting(&alice, &there);
    let copy = || bob.run(&["cp", "--accept-new", "-p", &server.port(), &here.arg("f"), "127.0.0.1:"]);
    copy().fails_with(4).says("does not know this machine's key").says(&bob.public_key()[..40]);
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0);
    // And costs the one who was invited nothing.
    bob.run(&["pair", "-p", &server.port(), "127.0.0.1", &code]).success();
    copy().success();
}

#[test]
fn a_server_with_another_key_than_before_does_not_pair() {
    let (alice, mallory, bob, there) = (Home::new(), Home::new(), Home::new(), Folder::new());
    let (server, code) = inviting(&mallory, &there);
    let port = server.port();
    fs::write(bob.path().join("known_hosts"), format!("127.0.0.1:{port} {}\n", alice.public_key())).unwrap();
    bob.run(&["pair", "-p", &port, "127.0.0.1", &code]).fails_with(4).says("HAS CHANGED");
    assert!(!mallory.path().join("authorized_keys").exists());
}

#[test]
fn a_gateway_invites_as_well() {
    let (alice, bob) = (Home::new(), Home::new());
    let gateway =
        Server::start_any(alice.command(&["gateway", "--listen", "127.0.0.1:0", "--json", "--invite"]));
    let code = gateway.first["invite"].as_str().unwrap().to_owned();
    bob.run(&["pair", &format!("127.0.0.1:{}", gateway.port()), &code]).success();
}

#[test]
fn authorize_lets_a_client_in_by_its_line() {
    let (alice, bob, here, there) = (Home::new(), Home::new(), Folder::new(), Folder::new());
    here.write("f", 1000, 1);
    let server = alice.serve(there.path());
    let copy = || bob.run(&["cp", "--accept-new", "-p", &server.port(), &here.arg("f"), "127.0.0.1:"]);
    copy().fails_with(4).says("fulmar authorize");
    // Who was refused last is known, and a person has to say yes.
    alice.run(&["authorize", "--last"]).fails_with(2).says(&bob.public_key()[..40]);
    let line = format!("{} bob", bob.public_key());
    let words: Vec<&str> = ["authorize"].into_iter().chain(line.split(' ')).collect();
    alice.run(&words).success().says("let in from now on");
    alice.run(&words).success().says("already");
    copy().success();
    alice.run(&["authorize", "ssh-ed25519", "AAAA"]).fails_with(2).says("fulmar keygen");
    alice.run(&["authorize"]).fails_with(2);
}

#[test]
fn status_shows_serve_and_reload_names_the_mistake() {
    let (alice, bob, there) = (Home::new(), Home::new(), Folder::new());
    let server = alice.serve(there.path());
    alice.run(&["status"]).success().says("serve at 127.0.0.1");
    alice.run(&["reload"]).success().says("authorized_keys was read again");
    let line = format!("permitt=\"a:1\" {} bob\n", bob.public_key());
    fs::write(alice.path().join("authorized_keys"), format!("# keys\n{line}")).unwrap();
    alice.run(&["reload"]).fails_with(1).says("authorized_keys:2: there is no option `permitt`");
    fs::write(alice.path().join("authorized_keys"), "nonsense\n").unwrap();
    alice.run(&["reload"]).fails_with(1).says("authorized_keys:1:");
    drop(server);
}

#[test]
fn what_is_missing_on_the_command_line_is_said() {
    let home = Home::new();
    home.run(&["perf"]).fails_with(2).says("-s").says("-c HOST");
    home.run(&["cp", "a", "host"]).fails_with(2).says("Did you mean `host:`?");
    home.run(&["up"]).fails_with(5).says("config.toml: there is no such file");
}

#[test]
fn every_command_has_its_page_and_its_help_ends_with_examples() {
    let (home, folder) = (Home::new(), Folder::new());
    home.run(&["manual", "--into", &folder.arg("man")]).success();
    for page in ["fulmar.1", "fulmar-cp.1", "fulmar-pair.1", "fulmar-gateway.1"] {
        assert!(folder.join("man").join(page).exists(), "{page}");
    }
    for command in
        ["serve", "cp", "pair", "authorize", "gateway", "proxy", "forward", "connect", "demo", "up"]
    {
        let help = home.run(&[command, "--help"]).success().stdout();
        assert!(help.contains("Example"), "{command}");
        assert!(!help.contains("--qlog"), "{command}: options of every command are told once");
    }
    let help = home.run(&["--help"]).success().stdout();
    assert!(help.contains("--qlog DIR") && help.contains("Examples:"), "{help}");
    let completions = home.run(&["completions", "bash"]).success().stdout();
    assert!(completions.contains("tcp-fec-interleave"), "profiles are offered");
}
