//! `fulmar authorize`: adds a client's key to `authorized_keys`.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use fulmar::crypto::PublicKey;

use crate::exit::Failure;
use crate::tunnel::watch::control::{Answer, ask_all};
use crate::turned_away::Refused;
use crate::{trust, units};

/// Let a client in: add its key to authorized_keys here.
///
/// The client prints the line with `fulmar keygen`, and whenever a server refuses it. It counts for the
/// client's next connection; nothing has to be restarted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
    fulmar authorize fulmar-ed25519 AAAA... alice@laptop
    fulmar authorize --last                    # the last one that was refused")]
pub struct Args {
    /// The client's line: `fulmar-ed25519`, its key, and a comment if you want one
    #[arg(value_name = "LINE", required_unless_present = "last", conflicts_with = "last")]
    line: Vec<String>,
    /// Show the client that a server of this user refused last, and ask whether to let it in
    #[arg(long)]
    last: bool,
    /// Print a report in JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Failure> {
    let line = if args.last { last().await? } else { args.line.join(" ") };
    let (key, comment) = PublicKey::from_line(&line).map_err(|error| {
        Failure::Usage(format!(
            "{error}: a line is `fulmar-ed25519 KEY COMMENT`, as `fulmar keygen` prints it"
        ))
    })?;
    let keys = trust::home()?.authorized_keys();
    let is_known = keys.find(&key)?.is_some();
    keys.add(&key, comment)?;
    let (file, fingerprint) = (keys.path().display().to_string(), key.fingerprint().to_string());
    if args.json {
        println!(
            "{}",
            serde_json::json!({ "ok": true, "is_new": !is_known, "file": file, "fingerprint": fingerprint })
        );
    } else if is_known {
        println!("{fingerprint} is in {file} already.");
    } else {
        println!("{fingerprint} is let in from now on: it is in {file}.");
    }
    Ok(())
}

/// The line of the client that was refused last, if a person says yes to it.
async fn last() -> Result<String, Failure> {
    let answers = ask_all(trust::home()?.path(), "refused").await;
    let all = answers.into_iter().filter_map(|(_, answer)| match answer {
        Ok(Answer::Refused(refused)) => Some(refused),
        _ => None,
    });
    let latest = all.flatten().min_by(|a, b| a.seconds_ago.total_cmp(&b.seconds_ago));
    let Some(Refused { key, peer, seconds_ago }) = latest else {
        return Err(Failure::Other("no server of this user that runs now has refused a key".into()));
    };
    let parsed: PublicKey = key.parse().map_err(|_| Failure::Other("a server tells no key".into()))?;
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("--last asks, and there is nobody to ask. The line is: {key}")));
    }
    let ago = units::duration(Duration::from_secs_f64(seconds_ago.clamp(0.0, 1e9)));
    let question = format!(
        "{} was refused {ago} ago. Its key is {}.\nCompare it with what `fulmar keygen` shows there. Let it in? [yes/no] ",
        units::printable(&peer),
        parsed.fingerprint()
    );
    let answer = tokio::task::spawn_blocking(move || {
        eprint!("{question}");
        let _ = std::io::stderr().flush();
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "yes")
    });
    match answer.await {
        Ok(true) => Ok(key),
        _ => Err(Failure::Untrusted("it was not let in".into())),
    }
}
