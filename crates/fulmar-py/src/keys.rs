//! Keys: an end's own, and others' as lines.

use fulmar::crypto::{self, PublicKey};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A private key.
#[pyclass(module = "fulmar", frozen)]
pub(crate) struct Identity(pub(crate) crypto::Identity);

pub(crate) fn parse(line: &str) -> PyResult<PublicKey> {
    PublicKey::from_line(line).map(|(key, _)| key).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// `SHA256:...` of a public key's line: what people compare.
#[pyfunction]
pub(crate) fn key_fingerprint(line: &str) -> PyResult<String> {
    Ok(parse(line)?.fingerprint().to_string())
}

#[pymethods]
impl Identity {
    /// A new key.
    #[new]
    fn new() -> Self {
        Self(crypto::Identity::generate())
    }

    /// From PEM (PKCS#8, Ed25519).
    #[staticmethod]
    fn from_pem(pem: &str) -> PyResult<Self> {
        crypto::Identity::from_pem(pem).map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// To PEM.
    fn to_pem(&self) -> String {
        self.0.to_pem()
    }

    /// The public half, a line.
    #[getter]
    fn public_key(&self) -> String {
        self.0.public_key().to_line("")
    }

    fn __repr__(&self) -> String {
        format!("<Identity {}>", self.0.public_key().fingerprint())
    }
}
