//! The coat: TLS 1.3 as every web server speaks it, with a certificate of its owner's or one made for the
//! day.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
#[cfg(feature = "aws-lc")]
use rustls::crypto::aws_lc_rs as library;
#[cfg(not(feature = "aws-lc"))]
use rustls::crypto::ring as library;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};

use crate::exit::Failure;

/// What HTTPS servers and browsers agree on (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// Whose certificate is made here: a web server that nobody has set up shows no better one.
const NOBODY: &str = "localhost";

/// A certificate and its key, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, and those that vouch for it.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(library::default_provider())
}

/// How a server wears it.
pub fn of_server(certificate: Option<&Certificate>) -> Result<Arc<ServerConfig>, Failure> {
    let broken = |error: rustls::Error| Failure::File(format!("the certificate cannot be used: {error}"));
    let (chain, key) = match certificate {
        Some(Certificate { chain, key }) => (read_chain(chain)?, read_key(key)?),
        None => make().map_err(|error| Failure::Other(format!("no certificate: {error}")))?,
    };
    let config =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS13]);
    let config = config.map_err(broken)?.with_no_client_auth();
    let mut config = config.with_single_cert(chain, key).map_err(broken)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let failed = |error| Failure::File(format!("{}: {error}", path.display()));
    let chain: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    match chain.is_empty() {
        true => Err(Failure::File(format!("{}: no certificate in PEM", path.display()))),
        false => Ok(chain),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| Failure::File(format!("{}: {error}", path.display())))
}

fn make() -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![NOBODY.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, NOBODY);
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    Ok((vec![certificate.der().clone()], key))
}

/// How a client wears it.
pub fn of_client() -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = provider();
    let anyone = Arc::new(Anyone(Arc::clone(&provider)));
    let config =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut config = config.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// Takes every certificate: who is at the other end is found out inside, by a key that is pinned.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn pem(label: &str, der: &[u8]) -> String {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
    }

    #[test]
    fn a_certificate_of_nobody_has_no_name_of_ours() {
        let (chain, _) = make().unwrap();
        let der = &chain[0][..];
        let shows = |word: &[u8]| der.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
        assert!(shows(NOBODY.as_bytes()));
        for word in ["fulmar", "rcgen", "self signed"] {
            assert!(!shows(word.as_bytes()), "{word}");
        }
        assert_ne!(make().unwrap().0, chain, "no two servers have the same");
    }

    #[test]
    fn a_certificate_comes_from_files_or_it_is_said_which_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let (chain, key) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
        let files = Certificate { chain: chain.clone(), key: key.clone() };
        let failure = || of_server(Some(&files)).unwrap_err().to_string();
        assert!(failure().contains("chain.pem"));
        let pair = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["example.org".into()]).unwrap().self_signed(&pair).unwrap();
        std::fs::write(&chain, "nothing").unwrap();
        assert!(failure().contains("chain.pem"));
        std::fs::write(&chain, pem("CERTIFICATE", certificate.der())).unwrap();
        assert!(failure().contains("key.pem"));
        std::fs::write(&key, pem("PRIVATE KEY", KeyPair::generate().unwrap().serialized_der())).unwrap();
        assert!(failure().contains("cannot be used"), "{}", failure());
        std::fs::write(&key, pem("PRIVATE KEY", pair.serialized_der())).unwrap();
        assert!(of_server(Some(&files)).is_ok());
    }
}
