//! A gateway with little memory, which is never killed: what it holds must stay within what it was told,
//! whoever comes.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use crate::field::Field;
use crate::honest::{self, GREEDY};
use crate::meter::{Figures, memory_max_kib};
use crate::process;

/// What it is told to hold at most.
const MEMORY_MIB: u64 = 64;

/// `fulmar gateway`.
#[derive(Debug)]
pub(crate) struct Gate {
    address: SocketAddr,
    log: PathBuf,
    life: Mutex<Life>,
}

#[derive(Debug)]
struct Life {
    child: Child,
    most: Figures,
    is_broken: bool,
}

impl Gate {
    /// Opens it to those with these names, who may go everywhere, and to who is greedy.
    pub(crate) fn build(field: &Field, friends: &[String]) -> io::Result<Self> {
        let home = field.folder.join("gate");
        honest::key(field, "gate")?;
        let mut keys = honest::key(field, GREEDY)? + "\n";
        for name in friends {
            keys += &format!("permit=\"*\" {}\n", honest::key(field, name)?);
        }
        fs::write(home.join("authorized_keys"), keys)?;
        let log = field.folder.join("gate.log");
        let mut command = Command::new(&field.program);
        command.args(["gateway", "--json", "--listen", "127.0.0.1:0", "--memory"]);
        command.arg(format!("{MEMORY_MIB}M")).env("FULMAR_HOME", &home).env_remove("RUST_LOG");
        let (child, line) = process::ready(command.stderr(File::create(&log)?))?;
        let address = line["address"].as_str().or(line["listening"].as_str());
        let address = address.and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| io::Error::other(format!("no address: {line}")))?;
        let life = Life { child, most: Figures::default(), is_broken: false };
        Ok(Self { address, log, life: Mutex::new(life) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it is there, and holds no more than it may: what it was told, an eighth more until the last of
    /// those who take has ended, and what the program takes itself.
    pub(crate) fn look(&self, field: &Field) {
        let mut life = self.life();
        if life.is_broken {
            return;
        }
        let ended = life.child.try_wait().ok().flatten();
        let Some(now) = Figures::of(life.child.id()).filter(|_| ended.is_none()) else {
            life.is_broken = true;
            return field.verdict.complain(format!("the gateway has ended by itself: {ended:?}"));
        };
        life.most = life.most.max(now);
        let most_kib = memory_max_kib(MEMORY_MIB);
        if now.memory_kib > most_kib {
            life.is_broken = true;
            field.verdict.complain(format!("the gateway holds {now}, more than {} MiB", most_kib >> 10));
        }
    }

    /// At the end.
    pub(crate) fn judge(&self, field: &Field) {
        self.look(field);
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        for line in log.lines().filter(|line| line.contains("panicked") || line.contains("a mistake in")) {
            field.verdict.complain(format!("the gateway's log: {line}"));
        }
        println!("the gateway, at most: {}", self.life().most);
    }

    fn life(&self) -> std::sync::MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let mut life = self.life();
        let _ = life.child.kill();
        let _ = life.child.wait();
    }
}
