//! `fulmar-lab operator`, `controller` and `agent`.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use fulmar::identity::{Home, Host};
use fulmar_net::parse;

use crate::bridge::{self, Ground};
use crate::desk::agent::{self, AgentConfig};
use crate::desk::controller::{Controller, ControllerConfig};
use crate::desk::operator::{Operator, OperatorConfig};
use crate::desk::types::Role;
use crate::sys;

/// Where the page is, what it shows, and where runs are kept
#[derive(clap::Args, Debug)]
struct PageArgs {
    /// Where the page is served; beyond this machine only if you say so
    #[arg(long, default_value = "127.0.0.1:8747", value_name = "ADDR")]
    listen: SocketAddr,
    /// A name by which browsers may call this machine, beside its addresses
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Do not open a browser
    #[arg(long)]
    no_open: bool,
    /// Folder of runs
    #[arg(long, default_value = "results/desk", value_name = "DIR")]
    out: PathBuf,
    /// Folder of experiment files
    #[arg(long, default_value = "experiments", value_name = "DIR")]
    experiments: PathBuf,
    /// Folder of the report
    #[arg(long, default_value = "docs/results", value_name = "DIR")]
    report: PathBuf,
    /// A transfer does not count if 1 % of its packets are later than this
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse::duration)]
    late_max: Duration,
}

/// Sit down at the laboratory: a page on which transports are compared, on this machine
///
/// A controller and two agents, with the bridge between them. As root, or where users may make namespaces,
/// with the kernel's TCP; otherwise in virtual time and through a relay. The first line printed is the page's
/// URL. docs/operator.md.
#[derive(clap::Args, Debug)]
pub(super) struct OperatorArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// The machine in the middle: link conditions, agents, results, and the page
///
/// Agents at both ends find it by its address and are let in by their keys (authorized_keys, as with every
/// Fulmar server). Its two interfaces lead to the sender's side and to the receiver's. docs/operator.md.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  fulmar-lab controller --bridge eth1,eth2 --control 192.168.1.1:4748")]
pub(super) struct ControllerArgs {
    #[command(flatten)]
    page: PageArgs,
    /// The interfaces to the sender and to the receiver
    #[arg(long, value_name = "IF,IF", value_delimiter = ',', num_args = 1..=2)]
    bridge: Vec<String>,
    /// Where agents are waited for
    #[arg(long, default_value = "127.0.0.1:4748", value_name = "ADDR")]
    control: SocketAddr,
    /// Folder of the identity and of authorized_keys [default: $FULMAR_HOME or ~/.config/fulmar]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

/// One end: sends or receives for a controller
///
/// With any profile, or with the kernel's TCP. The controller has to know its key, and it the controller's.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  fulmar-lab agent --controller 192.168.1.1 --data-address 10.0.0.1 --role sender")]
pub(super) struct AgentArgs {
    /// Where the controller is
    #[arg(long, value_name = "HOST[:PORT]", value_parser = controller_host)]
    controller: Host,
    /// This machine's address in the network that data go over
    #[arg(long, value_name = "IP")]
    data_address: IpAddr,
    /// What it calls itself [default: the machine's name]
    #[arg(long)]
    name: Option<String>,
    /// What it wants to do [default: whoever comes first sends]
    #[arg(long, value_parser = role)]
    role: Option<Role>,
    /// Folder of the identity and of known_hosts [default: $FULMAR_HOME or ~/.config/fulmar]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Network namespace of the data, as a file: /run/netns/NAME
    #[arg(long, value_name = "FILE")]
    namespace: Option<PathBuf>,
    /// Trust a controller that is not known yet, from now on
    #[arg(long)]
    trust_new: bool,
    /// Say nothing but what is wrong
    #[arg(long)]
    quiet: bool,
}

fn controller_host(text: &str) -> Result<Host, String> {
    let has_port = text.parse::<SocketAddr>().is_ok()
        || text
            .rsplit_once(':')
            .is_some_and(|(name, port)| !name.contains(':') && port.parse::<u16>().is_ok());
    let whole = match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => format!("[{v6}]:{}", crate::desk::CONTROL_PORT),
        _ if has_port => text.to_owned(),
        _ => format!("{text}:{}", crate::desk::CONTROL_PORT),
    };
    whole.parse().map_err(|error: fulmar::identity::HostParseError| error.to_string())
}

fn role(text: &str) -> Result<Role, String> {
    match text {
        "sender" => Ok(Role::Sender),
        "receiver" => Ok(Role::Receiver),
        _ => Err("an agent is sender or receiver".into()),
    }
}

fn home(folder: Option<PathBuf>) -> Result<Home, String> {
    folder.map_or_else(|| Home::locate().map_err(|error| error.to_string()), |path| Ok(Home::at(path)))
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    // Few: most of the work is that of agents, and of threads that the bridge has for itself.
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())
}

/// Resolves when the user or the system wants the program to end.
async fn told_to_end() -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).map_err(|error| error.to_string());
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Prints where the page is, before anything else, and opens it.
fn show(url: &str, page: &PageArgs) -> Result<(), String> {
    if !crate::desk::page_is_built() {
        eprintln!(
            "fulmar-lab: this program was built without the page of the desk; its HTTP interface works. \
             For the page: make dashboard, then build again (needs Node.js)"
        );
    }
    eprintln!("Open this in a browser:");
    let mut out = std::io::stdout();
    writeln!(out, "{url}").and_then(|()| out.flush()).map_err(|error| error.to_string())?;
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !page.no_open && has_screen {
        let browser = std::process::Command::new("xdg-open")
            .arg(url)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn();
        if let Err(error) = browser {
            eprintln!("fulmar-lab: no browser was opened ({error}): open the line above");
        }
    }
    Ok(())
}

pub(super) fn run_operator(args: OperatorArgs) -> Result<(), String> {
    // While there is one thread.
    let rights = bridge::acquire_rights();
    let page = args.page;
    let config = OperatorConfig {
        listen: page.listen,
        folder: page.out.clone(),
        experiments: page.experiments.clone(),
        report: page.report.clone(),
        late_max: page.late_max,
        names: page.host.clone(),
        token: None,
        rights,
    };
    runtime()?.block_on(async {
        let mut operator = Operator::start(config).await?;
        show(&operator.controller.url, &page)?;
        tokio::select! {
            ended = operator.tend() => ended,
            told = told_to_end() => told,
        }
    })
}

pub(super) fn run_controller(args: ControllerArgs) -> Result<(), String> {
    let ground = match &args.bridge[..] {
        [] => Err("this controller has no bridge: start it with --bridge and two interfaces".to_owned()),
        [left, right] => Ok(Ground::interfaces([left, right])?),
        _ => return Err("--bridge has two interfaces: the sender's side and the receiver's".into()),
    };
    let page = args.page;
    let home = home(args.home)?;
    let authorized = home.authorized_keys().path().display().to_string();
    runtime()?.block_on(async {
        let controller = Controller::start(ControllerConfig {
            listen: page.listen,
            control: args.control,
            home,
            folder: page.out.clone(),
            experiments: page.experiments.clone(),
            report: page.report.clone(),
            mode: "controller",
            ground,
            late_max: page.late_max,
            names: page.host.clone(),
            token: None,
        });
        let controller = controller.await?;
        show(&controller.url, &page)?;
        eprintln!(
            "fulmar-lab: waiting for agents at {}, key {}",
            controller.control,
            controller.key.fingerprint()
        );
        eprintln!("fulmar-lab: agents need a line in {authorized}");
        told_to_end().await
    })
}

pub(super) fn run_agent(args: AgentArgs) -> Result<(), String> {
    let name = args.name.unwrap_or_else(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        if name.trim().is_empty() { "agent".into() } else { name.trim().into() }
    });
    let config = AgentConfig {
        controller: args.controller,
        home: home(args.home)?,
        name,
        role: args.role,
        data_address: args.data_address,
        data_namespace: args.namespace,
        trusts_new: args.trust_new,
        is_quiet: args.quiet,
    };
    // While there is one thread, whose priority all others inherit.
    sys::be_preferred();
    runtime()?.block_on(async {
        tokio::select! {
            ended = agent::run(config) => ended,
            told = told_to_end() => told,
        }
    })
}
