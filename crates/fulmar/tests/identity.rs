//! Keys in files, used by both ends over real sockets.

mod common;

use std::path::Path;

use common::{loopback, soon};
use fulmar::crypto::PeerIdentity;
use fulmar::identity::{Home, Host, HostError, UnknownServer};
use fulmar::{Connection, ConnectionError, Endpoint, TransportConfig};

/// A machine of somebody: keys in a folder of its own, a server and a client.
struct Machine {
    home: Home,
    server: Endpoint,
    client: Endpoint,
}

impl Machine {
    fn new(folder: &Path) -> Self {
        let home = Home::at(folder);
        home.identity_or_create().unwrap();
        let server = home.server(loopback(), TransportConfig::default()).unwrap();
        tokio::spawn(accept_all(server.clone()));
        Self { home, server, client: Endpoint::client(loopback()).unwrap() }
    }

    fn host(&self) -> Host {
        Host::new("localhost", self.server.local_addr().unwrap().port()).unwrap()
    }

    async fn connect(
        &self,
        to: &Machine,
        ask: impl AsyncFnOnce(&UnknownServer) -> bool,
    ) -> Result<Connection, HostError> {
        soon(self.home.connect(&self.client, &to.host(), TransportConfig::default(), ask)).await
    }
}

async fn accept_all(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            if let Ok(connection) = incoming.await {
                connection.closed().await;
            }
        });
    }
}

async fn never(server: &UnknownServer) -> bool {
    panic!("nobody is to be asked about {server:?}")
}

#[tokio::test]
async fn one_key_on_two_machines_is_enough() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let alice = Machine::new(here.path());
    std::fs::copy(here.path().join("identity"), there.path().join("identity")).unwrap();
    let also_alice = Machine::new(there.path());
    let connection = alice.connect(&also_alice, never).await.unwrap();
    let own = alice.home.identity().unwrap().public_key();
    assert_eq!(connection.peer_identity(), Some(PeerIdentity::RawKey(own)));
    assert!(!here.path().join("known_hosts").exists());
}

#[tokio::test]
async fn a_server_is_asked_about_once() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [alice, bob] = folders.each_ref().map(|folder| Machine::new(folder.path()));
    bob.home.authorized_keys().add(&alice.home.identity().unwrap().public_key(), "alice").unwrap();
    let bobs = bob.home.identity().unwrap().public_key();

    let error = alice.connect(&bob, async |_| false).await.unwrap_err();
    let HostError::NotTrusted(server) = &error else { panic!("{error}") };
    assert_eq!((server.key, &server.host), (bobs, &bob.host()));
    assert!(error.to_string().contains(&bobs.fingerprint().to_string()), "{error}");

    let connection = alice.connect(&bob, async |server| server.key == bobs).await.unwrap();
    assert_eq!(connection.peer_identity(), Some(PeerIdentity::RawKey(bobs)));
    alice.connect(&bob, never).await.unwrap();

    // Another key at the same place is not asked about.
    let text = std::fs::read_to_string(alice.home.known_hosts().path()).unwrap();
    let others = fulmar::crypto::Identity::generate().public_key();
    std::fs::write(alice.home.known_hosts().path(), text.replace(&bobs.to_string(), &others.to_string()))
        .unwrap();
    let error = alice.connect(&bob, never).await.unwrap_err();
    assert!(
        matches!(&error, HostError::KeyChanged { line: 1, presented, known, .. }
        if *presented == bobs.fingerprint() && *known == others.fingerprint()),
        "{error}"
    );
    let place = format!("{}:1", alice.home.known_hosts().path().display());
    assert!(error.to_string().contains(&place) && error.to_string().contains("HAS CHANGED"), "{error}");
}

#[tokio::test]
async fn a_client_that_is_not_on_the_list_is_refused() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [alice, bob] = folders.each_ref().map(|folder| Machine::new(folder.path()));
    let end = |result: Result<Connection, HostError>| async {
        match result {
            Ok(connection) => soon(connection.closed()).await,
            Err(HostError::Connection { error, .. }) => error,
            Err(other) => panic!("{other}"),
        }
    };
    let error = end(alice.connect(&bob, async |_| true).await).await;
    assert!(matches!(error, ConnectionError::PeerTransport(_)), "{error}");
    // Noticed without a restart.
    bob.home.authorized_keys().add(&alice.home.identity().unwrap().public_key(), "alice").unwrap();
    let connection = alice.connect(&bob, never).await.unwrap();
    soon(connection.open_uni()).await.unwrap();
    soon(connection.shutdown(0, b"")).await.unwrap();
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(folder.path());
    let address = machine.server.local_addr().unwrap();
    let error = machine.home.server(address, TransportConfig::default()).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
