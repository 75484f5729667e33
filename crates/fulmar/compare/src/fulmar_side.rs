//! Fulmar, with its own settings but for the profile.

use std::sync::Arc;

use fulmar::crypto::{self, Identity, PublicKey, Refusal, VerifyPeer};
use fulmar::{ClientConfig, Endpoint, EndpointConfig, Profile, ServerConfig, TransportConfig};

use crate::run::{
    DatagramBytes, HANDSHAKE, Load, Plan, READ_BYTES, Result, Running, Sides, WRITE_BYTES, udp_socket,
};

/// Trusts one key.
#[derive(Debug)]
struct Only(PublicKey);

impl VerifyPeer for Only {
    fn verify(&self, key: &PublicKey, _name: &str) -> std::result::Result<(), Refusal> {
        if *key == self.0 { Ok(()) } else { Err(Refusal::UnknownKey(key.fingerprint())) }
    }
}

/// Opens the connections and lets them send for ever, if the plan says so.
pub(crate) fn start(plan: &Plan, sides: &Sides, running: &Running) -> Result<DatagramBytes> {
    let mut transport = TransportConfig::default();
    transport.profile(Profile::parse(&plan.profile)?).mtu_max_bytes(plan.mtu_bytes)?;
    let transport = Arc::new(transport);
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let server_crypto = crypto::ServerConfig::raw_key(&bob, Some(Arc::new(Only(alice.public_key()))));
    let mut server_config =
        ServerConfig { transport: transport.clone(), ..ServerConfig::new(Arc::new(server_crypto)) };
    server_config.retry_above_handshakes = usize::MAX;
    let client_crypto = crypto::ClientConfig::raw_key(Some(&alice), Arc::new(Only(bob.public_key())));
    let mut lossy = EndpointConfig::default();
    lossy.lose_received_ppm(plan.loss_ppm);
    let server =
        sides.server.block_on(async { Endpoint::new(&lossy, Some(server_config), udp_socket()?) })?;
    let config = ClientConfig { crypto: Arc::new(client_crypto), transport };
    let address = server.local_addr()?;
    let (received, load) = (running.received.clone(), plan.load);
    sides.server.spawn(async move {
        for place in 0.. {
            let Some(incoming) = server.accept().await else { return };
            let received = received.clone();
            tokio::spawn(async move {
                let connection = incoming.await?;
                if load == Load::Handshakes {
                    received.add(place, HANDSHAKE);
                    connection.closed().await;
                    return Ok(());
                }
                let mut stream = connection.accept_uni().await?;
                let mut buffer = vec![0; if load == Load::Idle { 16 } else { READ_BYTES }];
                while let Some(len) = stream.read(&mut buffer).await? {
                    received.add(place, len);
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            });
        }
    });
    let plan = plan.clone();
    sides.client.block_on(sides.client.spawn(async move {
        let clients = (0..plan.clients()).map(|_| {
            let client = Endpoint::new(&EndpointConfig::default(), None, udp_socket()?)?;
            client.set_client_config(config.clone());
            Ok::<_, std::io::Error>(client)
        });
        let clients: Vec<Endpoint> = clients.collect::<std::io::Result<_>>()?;
        // Nobody sends before all are connected.
        let mut connected = Vec::new();
        for client in clients.into_iter().cycle().take(plan.connections) {
            if load == Load::Handshakes {
                tokio::spawn(async move {
                    while let Ok(connecting) = client.connect(address, "localhost") {
                        if let Ok(connection) = connecting.await {
                            connection.close(0, b"");
                        }
                    }
                });
                continue;
            }
            let connection = client.connect(address, "localhost")?.await?;
            let mut stream = connection.open_uni().await?;
            stream.write_all(b"hello").await?;
            connected.push((connection, stream));
        }
        let last = connected.last().map(|(connection, _)| connection.clone());
        for (connection, mut stream) in connected {
            tokio::spawn(async move {
                let _kept = connection;
                let data = vec![0x55; if load == Load::Idle { 0 } else { WRITE_BYTES }];
                while load == Load::Bulk && stream.write_all(&data).await.is_ok() {}
                std::future::pending::<()>().await;
            });
        }
        let mtu = move || last.as_ref().map_or(0, |connection| connection.stats().mtu_bytes);
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Box::new(mtu) as DatagramBytes)
    }))?
}
