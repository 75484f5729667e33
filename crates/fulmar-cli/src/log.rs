//! Where the log goes, and in which form: for people, for programs, or to journald with its fields.

use std::io::{self, IsTerminal};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

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

/// Logs what `RUST_LOG` asks for; warnings otherwise, and what the program itself has to say.
pub fn start(format: Option<LogFormat>) {
    let format = format.unwrap_or_else(|| if is_journal() { LogFormat::Journald } else { LogFormat::Text });
    let is_terminal = io::stderr().is_terminal();
    let text =
        || tracing_subscriber::fmt::layer().with_target(false).with_ansi(is_terminal).with_writer(io::stderr);
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
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,fulmar_cli=info"));
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
}

/// Whether standard error is systemd's journal, as it is for services (systemd.exec, `JOURNAL_STREAM`).
fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(rustix::stdio::stderr())
        .is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}
