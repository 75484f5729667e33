//! `fulmar status` and `fulmar reload`: a look at all commands that run under this user's home, and a word to
//! them.

#[cfg(feature = "live")]
use std::io::IsTerminal;

#[cfg(feature = "live")]
use super::picture;
use super::table;
use crate::exit::Failure;
use crate::trust;
use crate::tunnel::watch::control::{Answer, ask_all};
use crate::tunnel::watch::report::Report;

/// Show your running fulmar processes: connections, rates, losses.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print once and exit (default without a terminal)
    #[arg(long)]
    #[cfg_attr(not(feature = "live"), allow(dead_code, reason = "a small program has no other way"))]
    once: bool,
    /// Print once, in JSON
    #[arg(long)]
    pub json: bool,
}

/// Reload config.toml and authorized_keys in your running fulmar processes.
///
/// Connections stay. A mistake in a file is reported with its line, changes nothing, and gives exit code 1.
#[derive(Debug, clap::Args)]
pub struct ReloadArgs {
    /// Print a report in JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs `status`.
pub async fn run(args: Args) -> Result<(), Failure> {
    let reports = look().await?;
    if args.json {
        let reports = serde_json::to_string_pretty(&reports).map_err(|e| Failure::Other(e.to_string()))?;
        println!("{reports}");
        return Ok(());
    }
    #[cfg(feature = "live")]
    if !args.once && std::io::stdout().is_terminal() {
        let handle = tokio::runtime::Handle::current();
        let shown = tokio::task::spawn_blocking(move || picture::show(reports, || handle.block_on(look())));
        return shown.await.map_err(|e| Failure::Other(e.to_string()))?;
    }
    table::plain(&reports).iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Runs `reload`.
pub async fn reload(args: ReloadArgs) -> Result<(), Failure> {
    let answers = ask_all(trust::home()?.path(), "reload").await;
    if answers.is_empty() {
        return Err(Failure::Other("nothing runs here that could read its files again".into()));
    }
    let mut failed = Vec::new();
    let mut told = Vec::new();
    for (pid, answer) in answers {
        match answer {
            Ok(Answer::Reloaded(lines)) => told.extend(lines.into_iter().map(|line| (pid, line))),
            Ok(Answer::Failed(why)) | Err(why) => failed.push(format!("process {pid}: {why}")),
            Ok(Answer::Reports(_) | Answer::Refused(_)) => {
                failed.push(format!("process {pid}: another answer than was asked for"))
            }
        }
    }
    if args.json {
        let told: Vec<_> =
            told.iter().map(|(pid, line)| serde_json::json!({ "pid": pid, "told": line })).collect();
        println!("{}", serde_json::json!({ "ok": failed.is_empty(), "reloaded": told, "failed": failed }));
    } else {
        told.iter().for_each(|(pid, line)| println!("process {pid}: {line}"));
    }
    match failed.is_empty() {
        true => Ok(()),
        false if args.json => Err(Failure::Reported(Box::new(Failure::Other(failed.join("\n"))))),
        false => Err(Failure::Other(failed.join("\n"))),
    }
}

async fn look() -> Result<Vec<Report>, Failure> {
    let answers = ask_all(trust::home()?.path(), "status").await;
    let reports = answers.into_iter().filter_map(|(_, answer)| match answer {
        Ok(Answer::Reports(reports)) => Some(reports),
        _ => None,
    });
    Ok(reports.flatten().collect())
}
