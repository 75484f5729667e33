//! Whole handshakes in memory. docs/internals/wire.md, section 3.

use super::*;
use crate::error::{TransportError, TransportErrorCode};
use crate::ids::{ConnectionId, PacketNumber, Side};
use crate::wire::packet::{self, PacketHeader};
use proptest::prelude::*;
use std::sync::Arc;

/// Lets in whom it lists; everybody if it lists nobody.
#[derive(Debug, Default)]
struct Listed(Vec<PublicKey>);

impl VerifyPeer for Listed {
    fn verify(&self, key: &PublicKey, name: &str) -> Result<(), Refusal> {
        match self.0.first() {
            None => Ok(()),
            Some(_) if self.0.contains(key) => Ok(()),
            Some(_) if name.is_empty() => Err(Refusal::UnknownKey(key.fingerprint())),
            Some(_) => Err(Refusal::KeyChanged { name: name.into(), presented: key.fingerprint() }),
        }
    }
}

fn anybody() -> Arc<dyn VerifyPeer> {
    Arc::new(Listed::default())
}

fn only(identity: &Identity) -> Arc<dyn VerifyPeer> {
    Arc::new(Listed(vec![identity.public_key()]))
}

/// Both ends of a handshake and the keys they got to.
pub(super) struct Pair {
    pub(super) client: Session,
    pub(super) server: Session,
    pub(super) handshake: Vec<(Side, PacketKeys)>,
    pub(super) one_rtt: Vec<(Side, Box<KeySchedule>)>,
    /// Bytes of handshake data each end sent.
    pub(super) sent_bytes: [usize; 2],
}

impl Pair {
    fn new(client: &ClientConfig, server: &ServerConfig) -> Self {
        Self {
            client: Session::start_client(client, "server.example", b"of the client".to_vec()).unwrap(),
            server: Session::start_server(server, b"of the server".to_vec()).unwrap(),
            handshake: Vec::new(),
            one_rtt: Vec::new(),
            sent_bytes: [0; 2],
        }
    }

    /// Goes on until nobody has anything to say, or one end fails: then gives that end and its error.
    fn run(&mut self) -> Result<(), (Side, TransportError)> {
        loop {
            let before = self.sent_bytes;
            for side in [Side::Client, Side::Server] {
                for flight in self.write(side) {
                    self.sent_bytes[usize::from(side.is_server())] += flight.len();
                    // In pieces, as packets bring them; none straddles a change of keys.
                    for piece in flight.chunks(100) {
                        self.session(!side).read_handshake(piece).map_err(|error| (!side, error))?;
                    }
                }
            }
            if self.sent_bytes == before {
                return Ok(());
            }
        }
    }

    fn session(&mut self, side: Side) -> &mut Session {
        if side.is_client() { &mut self.client } else { &mut self.server }
    }

    /// What one end has to say now, cut where keys change.
    fn write(&mut self, side: Side) -> Vec<Vec<u8>> {
        let mut flights = Vec::new();
        loop {
            let mut flight = Vec::new();
            let change = self.session(side).write_handshake(&mut flight);
            let is_done = change.is_none() && flight.is_empty();
            match change {
                Some(KeyChange::Handshake(keys)) => self.handshake.push((side, keys)),
                Some(KeyChange::OneRtt(keys)) => self.one_rtt.push((side, keys)),
                None => {}
            }
            if is_done {
                return flights;
            }
            flights.push(flight);
        }
    }

    /// The 1-RTT keys of both ends, the client's first.
    pub(super) fn into_schedules(mut self) -> (KeySchedule, KeySchedule) {
        self.one_rtt.sort_by_key(|(side, _)| side.is_server());
        let mut keys = self.one_rtt.into_iter().map(|(_, keys)| *keys);
        (keys.next().unwrap(), keys.next().unwrap())
    }
}

/// Raw keys on both sides that know each other.
fn configs() -> (ClientConfig, ServerConfig) {
    let (client, server) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
    let client_config = ClientConfig::raw_key(Some(&client), only(&server));
    (client_config, ServerConfig::raw_key(&server, Some(only(&client))))
}

/// A handshake between them.
pub(super) fn connected() -> Pair {
    let (client, server) = configs();
    let mut pair = Pair::new(&client, &server);
    pair.run().unwrap();
    pair
}

/// 3.1: both ends prove their raw keys, exchange parameters and get keys of both kinds that fit.
#[test]
fn raw_keys_on_both_sides() {
    let mut pair = connected();
    assert!(!pair.client.is_handshaking() && !pair.server.is_handshaking());
    assert_eq!(pair.client.peer_parameters(), Some(b"of the server".as_slice()));
    assert_eq!(pair.server.peer_parameters(), Some(b"of the client".as_slice()));
    let identity = |seed| PeerIdentity::RawKey(Identity::from_seed(&[seed; 32]).public_key());
    assert_eq!(pair.client.peer_identity(), Some(identity(2)));
    assert_eq!(pair.server.peer_identity(), Some(identity(1)));
    assert_eq!((pair.client.alpn(), pair.server.alpn()), (Some(ALPN_DEFAULT), Some(ALPN_DEFAULT)));
    assert_eq!(pair.server.server_name(), None);
    assert_eq!((pair.handshake.len(), pair.one_rtt.len()), (2, 2));
    // Small enough for one Initial datagram each way: raw keys save a round trip under the amplification
    // limit.
    assert!(pair.sent_bytes.iter().all(|bytes| *bytes < 1000), "{:?}", pair.sent_bytes);

    let dcid = ConnectionId::new([4; 8]);
    pair.handshake.sort_by_key(|(side, _)| side.is_server());
    let (from, to) = (&pair.handshake[0].1, &pair.handshake[1].1);
    for (from, to) in [(from, to), (to, from)] {
        let mut bytes = Vec::new();
        let span = PacketHeader::Handshake { dcid, scid: dcid }.put(PacketNumber(3), &mut bytes);
        bytes.extend_from_slice(b"frames");
        from.seal(PacketNumber(3), &mut bytes, span).unwrap();
        let at = packet::parse(&bytes, 8).unwrap().pn_offset;
        let (number, frames) = to.open(&mut bytes, at, PacketNumber(0)).unwrap();
        assert_eq!((number, &bytes[frames]), (PacketNumber(3), b"frames".as_slice()));
    }
}

/// 3.1: a server that asks nobody takes clients with and without an identity, and does not learn it.
#[test]
fn a_server_may_take_everybody() {
    let identity = Identity::from_seed(&[1; 32]);
    for client in [Some(&identity), None] {
        let mut pair = Pair::new(
            &ClientConfig::raw_key(client, anybody()),
            &ServerConfig::raw_key(&Identity::from_seed(&[2; 32]), None),
        );
        pair.run().unwrap();
        assert_eq!(pair.server.peer_identity(), None);
        assert!(pair.client.peer_identity().is_some());
    }
}

/// RFC 8446 7.5: whether it is the TLS library that exports or what is left of it.
#[test]
fn an_exporter_gives_both_ends_the_same_secret() {
    let mut pair = connected();
    let export = |session: &Session, label: &[u8], context: &[u8]| {
        let mut secret = [0; 70];
        session.export_keying_material(&mut secret, label, context).map(|()| secret)
    };
    let at_client = export(&pair.client, b"EXPORTER-test", b"context").unwrap();
    pair.client.conclude();
    assert_eq!(export(&pair.client, b"EXPORTER-test", b"context").unwrap(), at_client);
    assert_eq!(export(&pair.server, b"EXPORTER-test", b"context").unwrap(), at_client);
    pair.server.conclude();
    assert_eq!(export(&pair.server, b"EXPORTER-test", b"context").unwrap(), at_client);
    assert_ne!(export(&pair.server, b"EXPORTER-test", b"other").unwrap(), at_client);
    assert_ne!(export(&pair.server, b"EXPORTER-other", b"context").unwrap(), at_client);
    assert!(export(&pair.server, &[b'x'; 300], b"").is_err());
}

/// What was agreed on outlives the TLS session, and a message after the handshake is a violation still.
#[test]
fn a_handshake_that_is_over_leaves_what_was_agreed_on() {
    let mut pair = connected();
    let agreed = |session: &Session| {
        let name = session.server_name().map(str::to_owned);
        (session.is_handshaking(), session.peer_identity(), session.alpn().map(<[u8]>::to_vec), name)
    };
    for session in [&mut pair.client, &mut pair.server] {
        let before = agreed(session);
        session.conclude();
        assert_eq!(agreed(session), before);
        assert!(session.write_handshake(&mut Vec::new()).is_none());
        assert_eq!(session.read_handshake(&[4, 0, 0, 0]).unwrap_err().code, TransportErrorCode::Tls(10));
    }
}

/// One that lasts goes on.
#[test]
fn a_handshake_is_not_concluded_before_its_end() {
    let (client, server) = configs();
    let mut pair = Pair::new(&client, &server);
    pair.client.conclude();
    pair.server.conclude();
    pair.run().unwrap();
    assert!(pair.server.peer_identity().is_some());
}

/// 3.1: the server turns an unknown client away with access_denied and knows why.
#[test]
fn an_unknown_client_is_refused() {
    let (client, server) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
    let mut pair = Pair::new(
        &ClientConfig::raw_key(Some(&client), anybody()),
        &ServerConfig::raw_key(&server, Some(only(&server))),
    );
    let (side, error) = pair.run().unwrap_err();
    assert_eq!((side, error.code), (Side::Server, TransportErrorCode::Tls(49)));
    assert_eq!(pair.server.refusal(), Some(&Refusal::UnknownKey(client.public_key().fingerprint())));
    assert!(error.reason.contains(&client.public_key().fingerprint().to_string()));
    assert!(describe_alert(49).contains("access denied"));
}

/// 3.1: the client turns a server with the wrong key away and sends nothing that would identify itself.
#[test]
fn a_server_with_the_wrong_key_is_refused() {
    let (client, server) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
    let mut pair = Pair::new(
        &ClientConfig::raw_key(Some(&client), only(&client)),
        &ServerConfig::raw_key(&server, Some(anybody())),
    );
    let (side, error) = pair.run().unwrap_err();
    assert_eq!((side, error.code), (Side::Client, TransportErrorCode::Tls(46)));
    let presented = server.public_key().fingerprint();
    assert_eq!(
        pair.client.refusal(),
        Some(&Refusal::KeyChanged { name: "server.example".into(), presented })
    );
    assert_eq!(pair.server.peer_identity(), None);
}

/// 3.1: a client without an identity is told that one is required.
#[test]
fn a_client_without_identity_is_told_so() {
    let mut pair = Pair::new(
        &ClientConfig::raw_key(None, anybody()),
        &ServerConfig::raw_key(&Identity::from_seed(&[2; 32]), Some(anybody())),
    );
    let (side, error) = pair.run().unwrap_err();
    assert_eq!((side, error.code), (Side::Server, TransportErrorCode::Tls(116)));
}

/// An identity that shows a key which is not its own.
#[test]
fn a_stolen_public_key_is_of_no_use() {
    use rustls::server::AlwaysResolvesServerRawPublicKeys;
    use rustls::sign::CertifiedKey;
    let (real, thief) = (Identity::from_seed(&[2; 32]), Identity::from_seed(&[3; 32]));
    let mixed = CertifiedKey::new(real.certified_key().cert.clone(), thief.certified_key().key.clone());
    let mut tls = rustls::ServerConfig::clone(&ServerConfig::raw_key(&real, None).tls());
    tls.cert_resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(mixed)));
    let mut server =
        rustls::quic::ServerConnection::new(Arc::new(tls), keys::KEY_DERIVATION, Vec::new()).unwrap();
    let client = ClientConfig::raw_key(None, only(&real));
    let mut client = Session::start_client(&client, "server.example", Vec::new()).unwrap();

    let mut hello = Vec::new();
    assert!(client.write_handshake(&mut hello).is_none());
    server.read_hs(&hello).unwrap();
    let error = (0..2)
        .find_map(|_| {
            let mut flight = Vec::new();
            server.write_hs(&mut flight).unwrap();
            client.read_handshake(&flight).err()
        })
        .unwrap();
    assert_eq!(error.code, TransportErrorCode::Tls(51), "{error}");
    assert!(client.is_handshaking());
}

#[test]
fn ends_without_a_common_protocol_part() {
    let server = Identity::from_seed(&[2; 32]);
    let mut pair = Pair::new(
        &ClientConfig::raw_key(None, anybody()).with_alpn(&[b"other/1"]),
        &ServerConfig::raw_key(&server, None).with_alpn(&[b"fulmar-test/1", b"fulmar-test/2"]),
    );
    let (side, error) = pair.run().unwrap_err();
    assert_eq!((side, error.code), (Side::Server, TransportErrorCode::Tls(120)));

    let mut pair = Pair::new(
        &ClientConfig::raw_key(None, anybody()).with_alpn(&[b"fulmar-test/2"]),
        &ServerConfig::raw_key(&server, None).with_alpn(&[b"fulmar-test/1", b"fulmar-test/2"]),
    );
    pair.run().unwrap();
    assert_eq!(pair.client.alpn(), Some(b"fulmar-test/2".as_slice()));
}

#[test]
fn what_is_no_name_is_not_connected_to() {
    let config = ClientConfig::raw_key(None, anybody());
    for name in ["", "a name", "host:4747"] {
        let error = Session::start_client(&config, name, Vec::new()).unwrap_err();
        assert_eq!(error, StartError::ServerName(name.into()));
    }
    for name in ["host", "192.0.2.1", "2001:db8::1", "my_host.example"] {
        assert!(Session::start_client(&config, name, Vec::new()).is_ok(), "{name}");
    }
}

proptest! {
    /// Nothing a peer says before it is known makes an end panic, not even after it failed.
    #[test]
    fn any_handshake_bytes_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 1..300),
        prefix in 0usize..500,
        is_client in any::<bool>(),
    ) {
        let (client, server) = configs();
        let mut pair = Pair::new(&client, &server);
        let hello = pair.write(Side::Client).concat();
        let session = if is_client { &mut pair.client } else { &mut pair.server };
        let _ = session.read_handshake(&hello[..prefix.min(hello.len())]);
        let first = session.read_handshake(&bytes);
        let _ = session.write_handshake(&mut Vec::new());
        let second = session.read_handshake(&bytes);
        if first.is_err() { prop_assert_eq!(first, second); }
        prop_assert!(session.is_handshaking() && session.peer_identity().is_none());
    }

    /// Nor does a changed byte anywhere in the handshake: it fails, or it was not one that matters to the
    /// keys.
    #[test]
    fn a_changed_handshake_gives_no_keys_that_fit(flight in 0usize..4, at in any::<proptest::sample::Index>(), bit in 0u8..8) {
        let (client, server) = configs();
        let mut pair = Pair::new(&client, &server);
        let mut seen = 0;
        let mut failed = false;
        for _ in 0..3 {
            for side in [Side::Client, Side::Server] {
                for mut bytes in pair.write(side) {
                    if seen == flight && !bytes.is_empty() {
                        let at = at.index(bytes.len());
                        bytes[at] ^= 1 << bit;
                    }
                    seen += usize::from(!bytes.is_empty());
                    failed |= pair.session(!side).read_handshake(&bytes).is_err();
                }
            }
        }
        let is_complete = !pair.client.is_handshaking() && !pair.server.is_handshaking();
        prop_assert!(failed || !is_complete);
    }
}

#[test]
fn only_the_keys_named_are_trusted() {
    let [a, b, c] = [1, 2, 3].map(|seed| Identity::from_seed(&[seed; 32]).public_key());
    let trusted = TrustKeys::new([a, b]);
    assert_eq!((trusted.verify(&a, ""), trusted.verify(&b, "any")), (Ok(()), Ok(())));
    assert_eq!(trusted.verify(&c, ""), Err(Refusal::UnknownKey(c.fingerprint())));
    assert!(TrustKeys::new([]).verify(&a, "").is_err());
}

mod x509 {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    };
    use std::time::Duration;

    /// rcgen's certificates are valid from 1975 to 4096.
    fn in_2026() -> WallClock {
        Arc::new(|| Duration::from_secs(1_780_000_000))
    }

    fn pem(what: &str, der: &[u8]) -> Vec<u8> {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n").into_bytes()
    }

    struct Authority {
        roots: X509Roots,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new(name: &str) -> Self {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            let roots = X509Roots::from_pem(&pem("CERTIFICATE", certificate.der())).unwrap();
            Self { roots, issuer: Issuer::new(params, key) }
        }

        fn issue(&self, name: &str) -> X509Identity {
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap();
            let chain = pem("CERTIFICATE", certificate.der());
            X509Identity::from_pem(&chain, &pem("PRIVATE KEY", &key.serialize_der())).unwrap()
        }

        fn client(&self, identity: Option<X509Identity>) -> ClientConfig {
            ClientConfig::x509(self.roots.clone(), identity, in_2026()).unwrap()
        }

        fn server(&self, name: &str, asks: bool) -> ServerConfig {
            let roots = asks.then(|| self.roots.clone());
            ServerConfig::x509(self.issue(name), roots, in_2026()).unwrap()
        }
    }

    /// 3.1: certificates on both sides.
    #[test]
    fn certificates_on_both_sides() {
        let authority = Authority::new("one");
        let identity = authority.issue("client.example");
        let chain = identity.chain.iter().map(|certificate| certificate.to_vec()).collect();
        let mut pair =
            Pair::new(&authority.client(Some(identity)), &authority.server("server.example", true));
        pair.run().unwrap();
        assert_eq!(pair.server.peer_identity(), Some(PeerIdentity::X509(chain)));
        assert!(matches!(pair.client.peer_identity(), Some(PeerIdentity::X509(chain)) if chain.len() == 1));
        assert_eq!(pair.server.server_name(), Some("server.example"));
    }

    /// 3.1: another name, another authority, no certificate: each has its alert.
    #[test]
    fn certificates_that_prove_nothing_are_refused() {
        let (authority, other) = (Authority::new("one"), Authority::new("other"));
        for (client, server, failing, alert) in [
            (authority.client(None), authority.server("elsewhere.example", false), Side::Client, 42),
            (authority.client(None), other.server("server.example", false), Side::Client, 48),
            (authority.client(None), authority.server("server.example", true), Side::Server, 116),
        ] {
            let (side, error) = Pair::new(&client, &server).run().unwrap_err();
            assert_eq!((side, error.code), (failing, TransportErrorCode::Tls(alert)), "{error}");
        }
    }

    /// 3.1: kinds of identity do not mix.
    #[test]
    fn raw_keys_and_certificates_do_not_mix() {
        let authority = Authority::new("one");
        let identity = Identity::from_seed(&[2; 32]);
        let raw_client = ClientConfig::raw_key(None, anybody());
        assert!(Pair::new(&raw_client, &authority.server("server.example", false)).run().is_err());
        assert!(Pair::new(&authority.client(None), &ServerConfig::raw_key(&identity, None)).run().is_err());
    }

    #[test]
    fn a_key_that_is_not_the_certificates_makes_no_configuration() {
        let authority = Authority::new("one");
        let mut identity = authority.issue("server.example");
        identity.key = Identity::from_seed(&[1; 32]).private_key_der();
        let error = ServerConfig::x509(identity, None, in_2026()).unwrap_err();
        assert!(matches!(error, ConfigError::Identity(_)));
        for roots in [X509Roots::from_pem(b"no PEM"), X509Roots::from_der([b"no certificate"])] {
            assert!(matches!(roots, Err(ConfigError::Roots(_))), "{roots:?}");
        }
        for (chain, key) in [("no PEM", ""), ("", "no PEM")] {
            let identity = X509Identity::from_pem(chain.as_bytes(), key.as_bytes());
            assert!(matches!(identity, Err(ConfigError::Identity(_))), "{identity:?}");
        }
    }
}
