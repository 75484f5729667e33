//! `fulmar keygen`: makes this machine's identity, once, and shows its public half.

use fulmar::identity::StoreError;

use crate::exit::Failure;
use crate::trust;

/// Create this machine's key, and show its public half.
///
/// A key that is there already stays. Give the line that it prints to the owner of a server, who adds it with
/// `fulmar authorize LINE`. Two machines with the same identity file trust each other without that.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print a report in JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let home = trust::home()?;
    let (identity, is_new) = match home.identity() {
        Ok(identity) => (identity, false),
        Err(StoreError::NoIdentity { .. }) => (home.create_identity()?, true),
        Err(error) => return Err(error.into()),
    };
    let file = home.identity_path();
    let key = identity.public_key();
    let line = key.to_line(&comment());
    if args.json {
        let report = serde_json::json!({
            "ok": true,
            "is_new": is_new,
            "file": file.display().to_string(),
            "public_key": line,
            "fingerprint": key.fingerprint().to_string(),
        });
        println!("{report}");
    } else {
        println!(
            "{} {}",
            if is_new { "A new identity:" } else { "This machine's identity:" },
            file.display()
        );
        println!("Fingerprint: {}", key.fingerprint());
        println!(
            "To be let in by a server, send this line to its owner, who runs `fulmar authorize LINE` there:"
        );
        println!("{line}");
    }
    Ok(())
}

/// `user@machine`, as far as the system says.
pub fn comment() -> String {
    let user = std::env::var("USER").unwrap_or_default();
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match (user.trim(), machine.trim()) {
        ("", machine) => machine.to_owned(),
        (user, "") => user.to_owned(),
        (user, machine) => format!("{user}@{machine}"),
    }
}
