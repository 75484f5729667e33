//! The cipher suites, each put together from the parts that cost least.
//!
//! | part | whose | why |
//! |---|---|---|
//! | packets | aws-lc's or ring's | [`is_ring_faster`] |
//! | hashes, derivation of keys | ring's | an HMAC is keyed once for all that follows from a secret, nothing is allocated for it; aws-lc's begins anew for each key, extraction included |
//! | signatures, key exchange | aws-lc's | s2n-bignum's arithmetic |
//! | records of TLS | none | QUIC has none, yet the library makes keys for them at each step and holds them |
//!
//! Without the feature `aws-lc` every part is ring's, which a small program wants.

use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    OutboundOpaqueMessage, OutboundPlainMessage, Tls13AeadAlgorithm, UnsupportedOperationError,
};
use rustls::crypto::ring::cipher_suite as ring;
use rustls::{
    CipherSuiteCommon, ConnectionTrafficSecrets, Error, SupportedCipherSuite, Tls13CipherSuite, quic,
};
use std::sync::LazyLock;

#[cfg(feature = "aws-lc")]
use rustls::crypto::aws_lc_rs as library;
#[cfg(not(feature = "aws-lc"))]
use rustls::crypto::ring as library;

use library::cipher_suite as aws_lc;
pub(super) use library::{default_provider, kx_group, sign::any_eddsa_type};

/// In the order in which they are liked: the first is the fastest where the processor helps, and every one is
/// strong enough.
pub(super) fn all() -> Vec<SupportedCipherSuite> {
    static SUITES: LazyLock<[Tls13CipherSuite; 3]> = LazyLock::new(|| {
        let (aes_128, aes_256) = if is_ring_faster() {
            (ring::TLS13_AES_128_GCM_SHA256, ring::TLS13_AES_256_GCM_SHA384)
        } else {
            (aws_lc::TLS13_AES_128_GCM_SHA256, aws_lc::TLS13_AES_256_GCM_SHA384)
        };
        [
            suite(ring::TLS13_AES_128_GCM_SHA256, aes_128),
            suite(ring::TLS13_AES_256_GCM_SHA384, aes_256),
            suite(ring::TLS13_CHACHA20_POLY1305_SHA256, aws_lc::TLS13_CHACHA20_POLY1305_SHA256),
        ]
    });
    SUITES.iter().map(SupportedCipherSuite::from).collect()
}

/// RFC 9001 5.2: Initial packets are protected with AES-128-GCM, whatever is negotiated later. ring's is made
/// sooner, and they are few.
pub(super) fn initial() -> quic::Suite {
    part(ring::TLS13_AES_128_GCM_SHA256).quic_suite().expect("the suite serves QUIC; a test shows it")
}

/// The suite that protects packets as the second does, and derives keys as the first.
fn suite(keys: SupportedCipherSuite, packets: SupportedCipherSuite) -> Tls13CipherSuite {
    let (keys, packets) = (part(keys), part(packets));
    Tls13CipherSuite {
        common: CipherSuiteCommon { ..keys.common },
        hkdf_provider: keys.hkdf_provider,
        aead_alg: &NoRecords,
        quic: packets.quic,
    }
}

fn part(suite: SupportedCipherSuite) -> &'static Tls13CipherSuite {
    suite.tls13().expect("all are of TLS 1.3")
}

/// aws-lc has a kernel for processors with wide AES and AVX-512, where nothing is as fast. Everywhere else on
/// x86-64 ring is: with wide AES but no AVX-512 (AMD Zen 3, Intel's without AVX-512) 1,452 bytes of
/// AES-128-GCM take it 0.30 us, aws-lc 0.55; with AES-NI alone 0.43 and 0.46.
#[cfg(all(target_arch = "x86_64", feature = "aws-lc"))]
fn is_ring_faster() -> bool {
    use std::is_x86_feature_detected as has;
    !(has!("vaes") && has!("vpclmulqdq") && has!("avx512f"))
}

#[cfg(not(all(target_arch = "x86_64", feature = "aws-lc")))]
fn is_ring_faster() -> bool {
    false
}

/// What would protect records, if there were any.
struct NoRecords;

impl Tls13AeadAlgorithm for NoRecords {
    fn encrypter(&self, _: AeadKey, _: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Self)
    }

    fn decrypter(&self, _: AeadKey, _: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Self)
    }

    fn key_len(&self) -> usize {
        0
    }

    fn extract_keys(&self, _: AeadKey, _: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

impl MessageEncrypter for NoRecords {
    fn encrypt(&mut self, _: OutboundPlainMessage<'_>, _: u64) -> Result<OutboundOpaqueMessage, Error> {
        Err(Error::EncryptError)
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        payload_len
    }
}

impl MessageDecrypter for NoRecords {
    fn decrypt<'a>(&mut self, _: InboundOpaqueMessage<'a>, _: u64) -> Result<InboundPlainMessage<'a>, Error> {
        Err(Error::DecryptError)
    }
}
