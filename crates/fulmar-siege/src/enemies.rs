//! Who wants the server to fail: strangers that flood it, and somebody with a key who stalls.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fulmar::crypto::{self, Identity, PublicKey, Refusal, VerifyPeer};
use fulmar::identity::Home;
use fulmar::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};
use fulmar_cli::cp::message::{self, Message, Meta};

use crate::args::Args;
use crate::castle::Castle;
use crate::chance::Chance;
use crate::field::Field;
use crate::honest::GREEDY;

/// Pieces that a second's flood comes in.
const WAVES_PER_SECOND: u32 = 20;

/// First packets of handshakes that are kept to be sent again and again.
const INITIALS: usize = 20_000;

/// So many of them for the gateway, and this part of the flood.
const GATE_INITIALS: usize = 1000;
const GATE_SHARE: u64 = 4;

/// Where a first packet has the id that it calls the server by.
const CONNECTION_ID: std::ops::Range<usize> = 5..14;

/// Uploads and downloads that are begun and left to stand.
const STALLED: usize = 150;

/// All of them.
#[derive(Debug)]
pub(crate) struct Enemies(Vec<JoinHandle<()>>);

impl Enemies {
    pub(crate) fn join(self) {
        self.0.into_iter().for_each(|enemy| drop(enemy.join()));
    }
}

/// Believes every server.
#[derive(Debug)]
pub(crate) struct Anybody;

impl VerifyPeer for Anybody {
    fn verify(&self, _: &PublicKey, _: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Begins everything.
pub(crate) fn let_loose(
    field: &Arc<Field>,
    castle: &Castle,
    gate: SocketAddr,
    runtime: &tokio::runtime::Runtime,
    args: &Args,
) -> io::Result<Enemies> {
    let per_second = args.flood;
    let server = castle.address();
    let initials = runtime.block_on(initials())?;
    let (few, gate_flood) = (initials[..initials.len().min(GATE_INITIALS)].to_vec(), per_second / GATE_SHARE);
    field.verdict.count(format!("first packets of handshakes kept for the flood: {}", initials.len()));
    if args.only_hellos {
        return Ok(Enemies(vec![flood(field, server, per_second, again(initials))]));
    }
    let floods =
        [flood(field, server, per_second, noise()), flood(field, server, per_second, again(initials))];
    let identity = Home::at(field.folder.join(GREEDY)).identity().map_err(io::Error::other)?;
    let greedy = Arc::clone(field);
    runtime.spawn(async move {
        while !greedy.is_over() {
            // A server that was killed takes everything with it: then again.
            match stall_all(&identity, server).await {
                Ok(held) => {
                    greedy.verdict.count("times that uploads and downloads were left to stand");
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    drop(held);
                }
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    });
    let flood_at_gate = flood(field, gate, gate_flood, again(few));
    Ok(Enemies(floods.into_iter().chain([flood_at_gate]).collect()))
}

/// Sends what it is given, as fast as agreed, from sockets that change.
fn flood(
    field: &Arc<Field>,
    server: SocketAddr,
    per_second: u64,
    mut next: impl FnMut() -> Vec<u8> + Send + 'static,
) -> JoinHandle<()> {
    let field = Arc::clone(field);
    std::thread::spawn(move || {
        while !field.is_over() {
            let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else { continue };
            for _ in 0..per_second / u64::from(WAVES_PER_SECOND) {
                let _ = socket.send_to(&next(), server);
            }
            std::thread::sleep(Duration::from_secs(1) / WAVES_PER_SECOND);
        }
    })
}

/// Bytes without sense, some of which look like packets.
fn noise() -> impl FnMut() -> Vec<u8> + Send {
    let mut chance = Chance::new(99);
    move || {
        let count = 1 + chance.below(1400) as usize;
        let mut bytes = chance.bytes(count);
        if chance.is_one_in(2) {
            bytes[0] = 0x40 | bytes[0] & 0x3f;
        }
        bytes
    }
}

/// First packets of handshakes that nobody goes on with; some are damaged.
fn again(initials: Vec<Vec<u8>>) -> impl FnMut() -> Vec<u8> + Send {
    let mut chance = Chance::new(100);
    move || {
        let mut initial = chance.pick(&initials).clone();
        if chance.is_one_in(4) {
            let at = chance.below(initial.len() as u64) as usize;
            initial[at] ^= 1 << chance.below(8);
        }
        initial
    }
}

/// Complete first packets, caught from clients that call a socket which never answers.
async fn initials() -> io::Result<Vec<Vec<u8>>> {
    let ear = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    let address = ear.local_addr()?;
    let mut initials = std::collections::BTreeMap::new();
    let mut buffer = vec![0; 2000];
    while initials.len() < INITIALS {
        let caller = Endpoint::client("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
        let mut calls = Vec::new();
        for _ in 0..100 {
            let crypto = crypto::ClientConfig::raw_key(Some(&Identity::generate()), Arc::new(Anybody));
            let config = ClientConfig::new(Arc::new(crypto.with_alpn(&[b"fulmar-cp/1"])));
            calls.push(caller.connect_with(&config, address, "x").map_err(io::Error::other)?);
        }
        // Among them are second copies, and farewells. Callers repeat themselves for long: who has been heard
        // is enough.
        let wanted = initials.len() + calls.len();
        while let Ok(heard) = tokio::time::timeout(Duration::from_millis(20), ear.recv(&mut buffer)).await {
            let initial = &buffer[..heard?];
            if initial.len() >= 1200 {
                initials.insert(initial[CONNECTION_ID].to_vec(), initial.to_vec());
            }
            if initials.len() >= wanted {
                break;
            }
        }
        drop(calls);
    }
    Ok(initials.into_values().collect())
}

type Held = (Endpoint, Connection, Vec<(SendStream, RecvStream)>);

/// Connects with a key that is let in, begins uploads and downloads, and goes on with none.
async fn stall_all(identity: &Identity, server: SocketAddr) -> io::Result<Held> {
    let crypto =
        crypto::ClientConfig::raw_key(Some(identity), Arc::new(Anybody)).with_alpn(&[b"fulmar-cp/1"]);
    let endpoint = Endpoint::client("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
    let config = ClientConfig::new(Arc::new(crypto));
    let connecting = endpoint.connect_with(&config, server, "x").map_err(io::Error::other)?;
    let connection =
        tokio::time::timeout(Duration::from_secs(10), connecting).await?.map_err(io::Error::other)?;
    let mut streams = Vec::new();
    for index in 0..STALLED {
        let (mut writer, reader) = connection.open_bi().await.map_err(io::Error::other)?;
        let request = match index % 2 {
            0 => Message::Put(format!("up/stalled{index}").into_bytes()),
            _ => Message::Get(b"library/large".to_vec()),
        };
        let meta = Meta { size_bytes: 1_000_000, mode: 0o600, ..Meta::default() };
        message::write_request(&mut writer, &request).await.map_err(io::Error::other)?;
        if index % 2 == 0 {
            message::write(&mut writer, &[Message::Meta(meta)]).await.map_err(io::Error::other)?;
        }
        streams.push((writer, reader));
    }
    Ok((endpoint, connection, streams))
}
