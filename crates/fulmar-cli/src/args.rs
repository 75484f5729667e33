//! The command line: one definition from which parsing, help, manual page and completions come.

use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(any(test, feature = "manual"))]
use clap::CommandFactory;
use clap::{Parser, Subcommand};

use crate::exit::{EXIT_CODES, Failure};
use crate::log::{self, LogFormat};
#[cfg(feature = "manual")]
use crate::manual;
use crate::tunnel::commands;
use crate::units::{parse_size, printable_lines};
use crate::{authorize, cp, keygen, pair, perf, profiles, qlog, serve};

const EXAMPLES: &str = "    fulmar serve --root /srv/files --invite         # on a server; shows a code
    fulmar pair server.example.org 7k2m-p9xd        # on a client, once
    fulmar cp report.pdf server.example.org:
    fulmar gateway --invite                         # on a server
    fulmar proxy server.example.org                 # on a client: SOCKS, HTTP";

const ENVIRONMENT: &str = "\
Options of every command:
    --qlog DIR             log each connection to a file in this folder (qlog)
    --qlog-max SIZE        maximum total size of the qlog files [default: 1G]
    --log-format FORMAT    text, json or journald [default: text or journald]

Environment:
    FULMAR_HOME     folder of identity, known_hosts and authorized_keys
                    (default: fulmar/ in $XDG_CONFIG_HOME or ~/.config)
    RUST_LOG        what to log on standard error, such as debug or fulmar=trace
    SSLKEYLOGFILE   file to write connection secrets to, for packet dumps";

/// What the manual says of the files.
#[cfg(feature = "manual")]
const FILES: &[(&str, &str)] = &[
    ("~/.config/fulmar/identity", "This machine's private key."),
    ("~/.config/fulmar/known_hosts", "Servers that this machine has met, with their keys."),
    ("~/.config/fulmar/authorized_keys", "Clients that are let in, and what each may do."),
    ("~/.config/fulmar/config.toml", "Names of gateways, and what `fulmar up` runs."),
    ("~/.config/fulmar/reset_secret", "Lets a restarted server tell its old clients to reconnect."),
    ("/var/lib/fulmar", "The same files of the systemd services."),
];

fn examples() -> String {
    let demo = "    fulmar demo                                     # a lossy path, right here\n";
    format!("Examples:\n{}{EXAMPLES}", if cfg!(demo) { demo } else { "" })
}

/// Move data over paths that lose packets, at the speed of the path.
#[derive(Debug, Parser)]
#[command(name = "fulmar", version, max_term_width = 100, after_help = examples(), after_long_help = format!("{}\n\n{ENVIRONMENT}\n\n{EXIT_CODES}", examples()))]
pub struct Cli {
    /// Log each connection, packet by packet, to a file in this folder (format: qlog)
    #[arg(long, global = true, hide = true, value_name = "DIR", help_heading = "Log")]
    qlog: Option<PathBuf>,
    /// Maximum total size of the qlog files
    #[arg(long, global = true, hide = true, value_name = "SIZE", value_parser = parse_size, default_value = "1G", requires = "qlog", help_heading = "Log")]
    qlog_max: u64,
    /// Log format [default: text; journald for systemd services]
    #[arg(long, global = true, hide = true, value_enum, value_name = "FORMAT", help_heading = "Log")]
    log_format: Option<LogFormat>,
    #[command(subcommand)]
    command: Command,
}

/// The arguments of each describe it: with a doc comment here, `--help` would lose what they say.
#[derive(Debug, Subcommand)]
enum Command {
    Keygen(keygen::Args),
    Pair(pair::command::Args),
    Authorize(authorize::Args),
    Serve(serve::Args),
    Cp(cp::command::Args),
    Perf(perf::command::Args),
    Gateway(commands::gateway::Args),
    Proxy(commands::proxy::Args),
    #[cfg(machine)]
    Run(crate::run::command::Args),
    #[cfg(machine)]
    Transparent(crate::transparent::Args),
    #[cfg(machine)]
    Tun(crate::packets::command::Args),
    Forward(commands::forward::Args),
    Connect(commands::connect::Args),
    Up(commands::up::Args),
    Status(commands::status::Args),
    Reload(commands::status::ReloadArgs),
    #[cfg(demo)]
    Demo(crate::demo::Args),
    Profiles(profiles::Args),
    /// Print completions for a shell
    #[cfg(feature = "manual")]
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the manual pages (try: fulmar manual | man -l -)
    #[cfg(feature = "manual")]
    Manual {
        /// Write a page for each command into this folder instead: fulmar.1, fulmar-cp.1, ..
        #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        into: Option<PathBuf>,
    },
}

impl Command {
    /// Whether what it says is JSON.
    fn is_for_programs(&self) -> bool {
        match self {
            Self::Keygen(args) => args.json,
            Self::Pair(args) => args.json,
            Self::Authorize(args) => args.json,
            Self::Serve(args) => args.json,
            Self::Cp(args) => args.json,
            Self::Perf(args) => args.json,
            Self::Gateway(args) => args.json,
            Self::Proxy(args) => args.client.json,
            Self::Forward(args) => args.client.json,
            Self::Connect(args) => args.client.json,
            #[cfg(machine)]
            Self::Run(args) => args.client.json,
            #[cfg(machine)]
            Self::Tun(args) => args.client.json,
            #[cfg(machine)]
            Self::Transparent(args) => args.client.json,
            Self::Up(args) => args.json,
            Self::Status(args) => args.json,
            Self::Reload(args) => args.json,
            #[cfg(demo)]
            Self::Demo(args) => args.show.json,
            Self::Profiles(args) => args.json,
            #[cfg(feature = "manual")]
            Self::Completions { .. } | Self::Manual { .. } => false,
        }
    }

    /// Whether another program's output goes to the same place.
    fn is_guest(&self) -> bool {
        #[cfg(machine)]
        if matches!(self, Self::Run(_)) {
            return true;
        }
        matches!(self, Self::Connect(_))
    }
}

impl Cli {
    /// Does what was asked for, and says on standard error what went wrong.
    pub fn run(self) -> ExitCode {
        log::start(self.log_format, self.command.is_guest());
        let is_json = self.command.is_for_programs();
        if let Some(Err(failure)) = self.qlog.as_deref().map(|folder| qlog::start(folder, self.qlog_max)) {
            eprintln!("fulmar: {failure}");
            return failure.into();
        }
        let result = match self.command {
            Command::Keygen(args) => keygen::run(&args),
            Command::Pair(args) => block_on(pair::command::run(args)),
            Command::Authorize(args) => block_on(authorize::run(args)),
            Command::Serve(args) => block_on_to_its_end(serve::run(args)),
            Command::Cp(args) => block_on(cp::command::run(args)),
            Command::Perf(args) => block_on(perf::command::run(args)),
            Command::Gateway(args) => block_on_to_its_end(commands::gateway::run(args)),
            Command::Proxy(args) => block_on_to_its_end(commands::proxy::run(args)),
            Command::Forward(args) => block_on_to_its_end(commands::forward::run(args)),
            Command::Connect(args) => block_on_to_its_end(commands::connect::run(args)),
            #[cfg(machine)]
            Command::Transparent(args) => block_on_to_its_end(crate::transparent::run(args)),
            #[cfg(machine)]
            Command::Tun(args) => block_on(crate::packets::command::run(args)),
            #[cfg(machine)]
            Command::Run(args) => match crate::run::command::run(&args) {
                Ok(code) => return code,
                Err(failure) => Err(failure),
            },
            Command::Up(args) => block_on_to_its_end(commands::up::run(args)),
            Command::Status(args) => block_on(commands::status::run(args)),
            Command::Reload(args) => block_on(commands::status::reload(args)),
            #[cfg(demo)]
            Command::Demo(args) => block_on(crate::demo::run(args)),
            Command::Profiles(args) => profiles::run(&args),
            #[cfg(feature = "manual")]
            Command::Completions { shell } => {
                manual::complete(shell, Self::command());
                Ok(())
            }
            #[cfg(feature = "manual")]
            Command::Manual { into } => show_manual(into),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if is_json && !matches!(failure, Failure::Reported(_)) {
                    println!("{}", serde_json::json!({ "ok": false, "error": failure.json() }));
                }
                // What it names may come from anywhere: a command line that a shell has filled in, a file,
                // the other side.
                eprintln!("fulmar: {}", printable_lines(&failure.to_string()));
                failure.into()
            }
        }
    }
}

/// Prints the manual, or writes its pages into a folder.
#[cfg(feature = "manual")]
fn show_manual(into: Option<PathBuf>) -> Result<(), Failure> {
    let Some(folder) = into else {
        let text = manual::whole(Cli::command(), FILES).map_err(|e| Failure::Other(e.to_string()))?;
        print!("{}", String::from_utf8_lossy(&text));
        return Ok(());
    };
    manual::write_into(&folder, Cli::command(), FILES)
        .map_err(|e| Failure::File(format!("{}: {e}", folder.display())))
}

fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    block_on_to_its_end(async {
        tokio::select! {
            result = work => result,
            _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
        }
    })
}

/// For work that hears Ctrl-C itself, and has something to say at the end.
fn block_on_to_its_end(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Other(format!("no runtime: {e}")))?;
    let result = runtime.block_on(async {
        let result = work.await;
        qlog::finish().await;
        result
    });
    // A thread that waits for a slow disk must not hold the program back.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// A terminal of 80 columns would wrap them in the middle of a command.
    #[test]
    fn examples_fit_a_terminal() {
        let main = Cli::command();
        for command in main.get_subcommands().chain([&main]) {
            let texts = [command.get_after_help(), command.get_after_long_help()];
            for line in texts
                .into_iter()
                .flatten()
                .flat_map(|text| text.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
            {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
        }
    }

    #[test]
    fn the_help_tells_codes_and_environment() {
        let help = Cli::command().render_long_help().to_string();
        for word in ["Exit codes", "130", "FULMAR_HOME", "RUST_LOG", "SSLKEYLOGFILE"] {
            assert!(help.contains(word), "{word} is missing");
        }
    }
}
