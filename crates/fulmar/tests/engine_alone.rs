//! Without the feature `systems`: what the engine does alone, and what it says to whoever asks for more.
//! `make engine-alone` runs it.
#![cfg(not(feature = "systems"))]

mod common;

use std::sync::Arc;

use common::{Pair, connect, echo, noise, soon};
use fulmar::{AllowedProfiles, Profile, TransportConfig, profile_names};

#[test]
fn the_published_systems_are_not_built_in_and_that_is_said() {
    assert_eq!(profile_names(), ["auto", "newreno", "cubic", "bbr", "reno"]);
    for spec in ["lt-tcp", "dfcp:rate=20", "ctcp", "cubic:code=reed-solomon", "auto:cc=unlimited"] {
        let reason = Profile::parse(spec).expect_err(spec).to_string();
        assert!(reason.contains("not built into this program"), "{spec}: {reason}");
    }
    let reason = "auto,lt-tcp".parse::<AllowedProfiles>().expect_err("not there").to_string();
    assert!(reason.contains("not built into this program"), "{reason}");
}

/// A client of another program, with the systems, offers a server without them a profile and a code of a
/// paper: data arrive both ways without that code (wire 7.1), and the server sends as it would have.
#[tokio::test]
async fn a_peer_s_offer_of_what_is_not_built_in_is_left_and_data_arrive() {
    let code = Arc::new(fulmar_fec::RlcBlock::new(32).expect("a length"));
    let mut offering = TransportConfig::default();
    offering.profile(Profile { name: "ctcp".into(), code, ..Profile::auto() });
    let (client, server) = (Pair::with(offering), Pair::new());
    let (client_endpoint, server_endpoint) = (client.client(), server.server());
    let (client, server) = connect(&client_endpoint, &server_endpoint).await;
    tokio::spawn(echo(server.clone()));
    let (mut send, mut receive) = soon(client.open_bi()).await.expect("a stream");
    let sent = noise(5, 300_000);
    let writing = async {
        send.write_all(&sent).await.expect("written");
        send.finish().expect("finished");
    };
    let (received, ()) = soon(async { tokio::join!(receive.read_to_end(1 << 20), writing) }).await;
    assert!(received.expect("an echo") == sent);
    assert_eq!(server.stats().profile, "auto", "its own");
}
