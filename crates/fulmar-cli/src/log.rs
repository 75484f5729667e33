//! Where the log goes, and in which form: for people, for programs, or to journald with its fields.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::platform;

/// In which form the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people, on standard error
    Text,
    /// A JSON object for each event, on standard error
    Json,
    /// Straight to systemd's journal
    Journald,
}

/// Logs what `RUST_LOG` asks for; warnings otherwise, and what the program itself has to say. Where standard
/// error is another program's as well (`is_guest`), advice about the machine is left to the commands that
/// stay.
pub fn start(format: Option<LogFormat>, is_guest: bool) {
    let format =
        format.unwrap_or_else(|| if platform::is_journal() { LogFormat::Journald } else { LogFormat::Text });
    // Colours are for people: a file or a pipe gets none, nor does somebody who wants none (no-color.org).
    let is_coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let text =
        || tracing_subscriber::fmt::layer().with_target(false).with_ansi(is_coloured).with_writer(io::stderr);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Json => tracing_subscriber::fmt::layer().json().with_writer(io::stderr).boxed(),
        LogFormat::Text => text().boxed(),
        LogFormat::Journald => match tracing_journald::layer() {
            Ok(journal) => journal.with_syslog_identifier("fulmar".into()).boxed(),
            Err(error) => {
                eprintln!("fulmar: no journal ({error}); logging here");
                text().boxed()
            }
        },
    };
    let usual = if is_guest { "warn,fulmar::buffers=error,fulmar_cli=info" } else { "warn,fulmar_cli=info" };
    let asked = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
    let filter: Targets = asked.or_else(|| usual.parse().ok()).unwrap_or_default();
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
}
