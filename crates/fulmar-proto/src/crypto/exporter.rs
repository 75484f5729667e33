//! Secrets for the application (RFC 8446 7.5), after the TLS session is gone.
//!
//! The library has no other word for the secret that they follow from than what it tells its key log.

use rustls::crypto::tls13::{OkmBlock, OutputLengthError};
use rustls::{KeyLog, Tls13CipherSuite};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// How a key log calls the secret.
const LABEL: &str = "EXPORTER_SECRET";

/// What secrets for the application follow from.
pub(super) struct Exporter {
    suite: &'static Tls13CipherSuite,
    secret: OkmBlock,
}

impl Exporter {
    pub(super) fn new(suite: &'static Tls13CipherSuite, secret: OkmBlock) -> Self {
        Self { suite, secret }
    }

    /// TLS-Exporter(label, context, length of `out`).
    pub(super) fn export(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), OutputLengthError> {
        let (hash, hkdf) = (self.suite.common.hash_provider, self.suite.hkdf_provider);
        let empty = hash.hash(&[]);
        let expander = hkdf.expander_for_okm(&self.secret);
        let secret = labelled(label, empty.as_ref(), hash.output_len(), |info| expander.expand_block(info))?;
        let (expander, context) = (hkdf.expander_for_okm(&secret), hash.hash(context));
        labelled(b"exporter", context.as_ref(), out.len(), |info| expander.expand_slice(info, out))?
    }
}

/// HKDF-Expand-Label (RFC 8446 7.1): what `expand` makes of the label.
fn labelled<T>(
    label: &[u8],
    context: &[u8],
    len: usize,
    expand: impl FnOnce(&[&[u8]]) -> T,
) -> Result<T, OutputLengthError> {
    const PREFIX: &[u8] = b"tls13 ";
    let len = u16::try_from(len).map_err(|_| OutputLengthError)?;
    let label_len = u8::try_from(PREFIX.len() + label.len()).map_err(|_| OutputLengthError)?;
    let context_len = u8::try_from(context.len()).map_err(|_| OutputLengthError)?;
    Ok(expand(&[&len.to_be_bytes(), &[label_len], PREFIX, label, &[context_len], context]))
}

thread_local! {
    /// Between a step of a handshake and the end of [`listen`], which called it.
    static HEARD: Cell<Option<OkmBlock>> = const { Cell::new(None) };
}

/// Takes a step of a handshake whose configuration has [`Listening`] as its key log. Gives the exporter's
/// secret as well, if the step brought it.
pub(super) fn listen<T>(step: impl FnOnce() -> T) -> (T, Option<OkmBlock>) {
    HEARD.take();
    let result = step();
    (result, HEARD.take())
}

/// A key log that hears the exporter's secret, beside another.
pub(super) struct Listening(pub(super) Arc<dyn KeyLog>);

impl KeyLog for Listening {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if label == LABEL {
            HEARD.set(Some(OkmBlock::new(secret)));
        }
        if self.0.will_log(label) {
            self.0.log(label, client_random, secret);
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == LABEL || self.0.will_log(label)
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
