//! What is wrong with the keys and certificates that a configuration is made of.

/// Why there is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The private key is of no kind that is supported, or does not belong to the certificate.
    #[error("certificate and private key: {0}")]
    Identity(String),
    /// The certificates to be trusted cannot be used.
    #[error("trusted certificates: {0}")]
    Roots(String),
}
