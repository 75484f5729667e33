//! A siege of the real server, with processes: honest clients copy files through bad networks while strangers
//! flood, clients that were let in stall, the server is stopped, killed and started again with few
//! descriptors or a full disk, and the wall clock jumps.
//!
//! Beside it a gateway with little memory, whose clients' packets are copied, eaten and shut out on the way.
//!
//! What has to hold: every copy ends, with equal files or with an error that is named; no final name ever
//! stands for half a file; memory, threads and descriptors of the server stay where they were; both servers
//! hold no more than `--memory` says; every byte that goes through the gateway comes back, and none stands
//! still for long. The program ends with 1 if one of these does not, and names each case. What happens when
//! is drawn from a seed; when it happens is the machine's affair.
//!
//! ```sh
//! make siege MINUTES=30
//! ```
#![forbid(unsafe_code)]

mod args;
mod castle;
mod chance;
mod clock;
mod enemies;
mod field;
mod gate;
mod honest;
mod late;
mod meter;
mod networks;
mod process;
mod strangers;
mod travellers;
mod verdict;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Parser;
use fulmar::identity::Home;

use args::Args;
use castle::Castle;
use chance::Chance;
use field::Field;
use gate::Gate;
use networks::Networks;

/// Between two deeds against the server.
const PEACE: Duration = Duration::from_secs(9);

/// After the last deed the server has so long to come to rest before its figures are taken: longer than the
/// timeout by which it notices that somebody has left without a word.
const REST: Duration = Duration::from_secs(45);

fn main() -> ExitCode {
    match besiege(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fulmar-siege: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything held.
fn besiege(args: &Args) -> std::io::Result<bool> {
    let folder = tempfile::Builder::new().prefix("fulmar-siege").tempdir()?;
    let beside = std::env::current_exe()?.with_file_name("fulmar");
    let program = args.program.clone().unwrap_or(beside);
    let field = Arc::new(Field::new(program, folder.path().to_owned()));
    let homes = honest::homes(&field, args.clients)?;
    let (castle, networks) = {
        let castle = Castle::build(&field)?;
        let networks = networks::open(castle.address())?;
        (Arc::new(castle), Arc::new(networks))
    };
    println!("besieging {} for {} min with seed {}", castle.address(), args.minutes, args.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let gate = Arc::new(Gate::build(&field, &travellers::names())?);
    let enemies = enemies::let_loose(&field, &castle, gate.address(), &runtime, args)?;
    if !args.only_hellos {
        crowd_in(&field, castle.address(), gate.address(), &runtime)?;
    }
    // Not before: to gather a flood takes time.
    let end = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    let clients = let_in(&field, &castle, &networks, homes, args);
    let mut others = vec![watch(&field, &gate)];
    if !args.only_hellos {
        others.extend(travellers::set_out(&field, gate.address(), args.seed)?);
    }
    happen(&field, &castle, &networks, args, end);
    field.end();
    networks.calm();
    for client in clients {
        let _ = client.join();
    }
    enemies.join();
    others.into_iter().for_each(|other| drop(other.join()));
    runtime.shutdown_timeout(Duration::from_secs(5));
    std::thread::sleep(REST);
    castle.judge(&field);
    gate.judge(&field);
    print!("{}", field.verdict);
    println!("{}", castle.figures());
    Ok(field.verdict.is_fine())
}

/// Honest clients, each for itself.
fn let_in(
    field: &Arc<Field>,
    castle: &Arc<Castle>,
    networks: &Arc<Networks>,
    homes: Vec<PathBuf>,
    args: &Args,
) -> Vec<JoinHandle<()>> {
    let clients = homes.into_iter().enumerate().map(|(index, home)| {
        let (field, castle, networks) = (Arc::clone(field), Arc::clone(castle), Arc::clone(networks));
        let chance = Chance::new(args.seed.wrapping_mul(1000) + index as u64);
        let is_plain = args.only_hellos;
        std::thread::spawn(move || match is_plain {
            true => honest::fetch_all_the_time(&field, &castle, &home, chance),
            false => honest::copy_all_the_time(&field, &castle, &networks, &home, index, chance),
        })
    });
    clients.collect()
}

/// What is done to the server and the networks to it, until the end.
fn happen(field: &Field, castle: &Castle, networks: &Networks, args: &Args, end: Instant) {
    let mut chance = Chance::new(args.seed);
    let third = Duration::from_secs_f64(args.minutes * 60.0 / 3.0);
    let (early, late) = (end - 2 * third, end - third);
    while Instant::now() < end {
        std::thread::sleep(PEACE.min(end.saturating_duration_since(Instant::now())));
        if args.only_hellos {
            castle.look(field);
            continue;
        }
        // The first server, with few descriptors, and the last live for a third of the siege each, so that
        // growth would show.
        let may_kill = (early..late).contains(&Instant::now());
        castle.suffer(field, &mut chance, may_kill);
        networks.change(&mut chance);
    }
}

/// Who takes memory without being a client, at both servers.
fn crowd_in(
    field: &Arc<Field>,
    files: SocketAddr,
    tunnels: SocketAddr,
    runtime: &tokio::runtime::Runtime,
) -> std::io::Result<()> {
    runtime.spawn(strangers::half_open(Arc::clone(field), files, b"fulmar-cp/1", [127, 0, 5, 1]));
    runtime.spawn(strangers::half_open(Arc::clone(field), tunnels, b"fulmar-tunnel/1", [127, 0, 6, 1]));
    for server in [files, tunnels] {
        let identity =
            Home::at(field.folder.join(honest::GREEDY)).identity().map_err(std::io::Error::other)?;
        runtime.spawn(strangers::greet(Arc::clone(field), identity, server));
    }
    Ok(())
}

/// Looks at the gateway all the time, and how late this machine is.
fn watch(field: &Arc<Field>, gate: &Arc<Gate>) -> JoinHandle<()> {
    let (field, gate) = (Arc::clone(field), Arc::clone(gate));
    std::thread::spawn(move || {
        while !field.is_over() {
            gate.look(&field);
            (0..25).for_each(|_| field.late.nap());
        }
    })
}
