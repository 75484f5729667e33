//! `fulmar keygen`: makes this machine's identity, once, and shows its public half.

use fulmar::identity::StoreError;

use crate::exit::Failure;
use crate::trust;

/// Makes this machine's identity, if there is none, and shows its public key.
///
/// The line that is shown belongs into authorized_keys on servers that are to let this machine in. A server
/// with the same identity lets it in anyway: copying one identity file to both machines is enough.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Report as JSON on standard output
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
            if is_new { "A new identity:" } else { "The identity that was there:" },
            file.display()
        );
        println!("Fingerprint: {}", key.fingerprint());
        println!(
            "Servers that are to let it in need this line in their {}:",
            home.authorized_keys().path().display()
        );
        println!("{line}");
    }
    Ok(())
}

/// `user@machine`, as far as the system says.
fn comment() -> String {
    let user = std::env::var("USER").unwrap_or_default();
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match (user.trim(), machine.trim()) {
        ("", machine) => machine.to_owned(),
        (user, "") => user.to_owned(),
        (user, machine) => format!("{user}@{machine}"),
    }
}
