//! Clients that are let in and then ask for too much, or for nothing more.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::{Folder, Home, assert_same, wait_until};
use fulmar::crypto::{self, PublicKey, Refusal, VerifyPeer};
use fulmar::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};
use fulmar_cli::cp::message::{self, Message, Meta};

/// Believes every server.
#[derive(Debug)]
pub(crate) struct Anybody;

impl VerifyPeer for Anybody {
    fn verify(&self, _: &PublicKey, _: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A client that says what it likes.
async fn connect(home: &Home, server: SocketAddr) -> (Endpoint, Connection) {
    let identity = fulmar::identity::Home::at(home.path()).identity().unwrap();
    let crypto =
        crypto::ClientConfig::raw_key(Some(&identity), Arc::new(Anybody)).with_alpn(&[b"fulmar-cp/1"]);
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(&ClientConfig::new(Arc::new(crypto)), server, "x").unwrap();
    let connection = connecting.await.unwrap();
    (endpoint, connection)
}

/// Begins to upload a file, and stops in the middle.
async fn stall(connection: Connection, name: String) -> (SendStream, RecvStream) {
    let (mut writer, mut reader) = connection.open_bi().await.unwrap();
    message::write_request(&mut writer, &Message::Put(name.into_bytes())).await.unwrap();
    let meta = Meta { size_bytes: 1_000_000, mode: 0o600, ..Meta::default() };
    message::write(&mut writer, &[Message::Meta(meta)]).await.unwrap();
    assert!(matches!(message::read(&mut reader).await, Ok(Message::Resume(0, _))));
    message::write(&mut writer, &[Message::Start(0), Message::Data(vec![1; 1000].into())]).await.unwrap();
    (writer, reader)
}

/// 600 uploads that stand still took all threads there are: nobody else got anything.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_stand_still_hold_up_nobody() {
    let (home, here, there) = (Home::new(), Folder::new(), Folder::new());
    here.write("honest", 3_000_000, 1);
    let server = home.serve(there.path());
    let mut held = Vec::new();
    let mut stalling = tokio::task::JoinSet::new();
    for batch in 0..3 {
        let (endpoint, connection) = connect(&home, server.address).await;
        for index in 0..200 {
            stalling.spawn(stall(connection.clone(), format!("{batch}-{index}")));
        }
        held.push((endpoint, connection));
    }
    let streams = stalling.join_all().await;
    assert_eq!(streams.len(), 600);
    // Threads that have worked stay for a while in case there is more to do; none may be held.
    wait_until("no thread waits for them", || server.status("Threads") < 64);

    let (port, source) = (server.port(), here.arg("honest"));
    let copy = tokio::task::spawn_blocking(move || {
        home.run(&["cp", "-p", &port, &source, "127.0.0.1:"]).success();
    });
    copy.await.unwrap();
    assert_same(&here.join("honest"), &there.join("honest"));
    drop((streams, held));
}

/// Requests beyond what one connection may have wait, and are served when there is room.
#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_bound_wait_their_turn() {
    let (home, there) = (Home::new(), Folder::new());
    there.write("f", 10, 1);
    let server = home.serve(there.path());
    let (_endpoint, connection) = connect(&home, server.address).await;
    let mut held = Vec::new();
    for index in 0..256 {
        held.push(stall(connection.clone(), index.to_string()).await);
    }
    let (mut writer, mut reader) = connection.open_bi().await.unwrap();
    message::write_request(&mut writer, &Message::Stat(b"f".to_vec())).await.unwrap();
    let mut answer = std::pin::pin!(message::read(&mut reader));
    tokio::select! {
        early = &mut answer => panic!("{early:?}"),
        () = tokio::time::sleep(std::time::Duration::from_millis(300)) => {}
    }
    held.pop();
    assert!(matches!(answer.await, Ok(Message::Info(..))));
}

/// Requests that wait hold what they have, so nobody may wait for a client that has left: with each
/// connection that it opened and closed, 10 MB of a server were gone until its other requests had ended.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_client_that_has_left() {
    const PER_CLIENT: usize = 1024;
    let (home, there) = (Home::new(), Folder::new());
    let server = home.serve(there.path());
    let mut held = Vec::new();
    let mut stalling = tokio::task::JoinSet::new();
    for index in 0..PER_CLIENT {
        if index % 256 == 0 {
            held.push(connect(&home, server.address).await);
        }
        let connection = held[index / 256].1.clone();
        stalling.spawn(stall(connection, index.to_string()));
    }
    let streams = stalling.join_all().await;
    let before_kib = server.status("VmRSS");
    for _ in 0..20 {
        let (endpoint, connection) = connect(&home, server.address).await;
        let mut waiting = Vec::new();
        for _ in 0..200 {
            let (mut writer, reader) = connection.open_bi().await.unwrap();
            message::write_request(&mut writer, &Message::Stat(b"f".to_vec())).await.unwrap();
            waiting.push((writer, reader));
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        connection.close(0, b"");
        endpoint.wait_idle().await;
    }
    let grown_kib = server.status("VmRSS").saturating_sub(before_kib);
    assert!(grown_kib < 20 << 10, "{grown_kib} KiB for nobody");
    drop((streams, held));
}
