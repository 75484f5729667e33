//! The server, and what is done to it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::chance::Chance;
use crate::clock::Clock;
use crate::field::Field;
use crate::meter::{Figures, memory_max_kib};
use crate::process;

/// Files on the server for everybody to fetch, and their sizes in bytes.
pub(crate) const LIBRARY: [(&str, usize); 4] = [
    ("library/empty", 0),
    ("library/small", 1000),
    ("library/middle", 300_000),
    ("library/large", 4_000_000),
];

/// What it is told to hold at most.
const MEMORY_MIB: u64 = 256;

/// A folder with this much room, where the system lets the siege make one.
pub(crate) const SMALL_MIB: u64 = 8;

/// Threads and descriptors that a server at rest has no use for more of, and memory beyond what it had under
/// siege.
const THREADS_MAX: u64 = 64;
const DESCRIPTORS_MAX: u64 = 48;
const GROWTH_MAX_KIB: u64 = 96 << 10;

/// `fulmar serve`, again and again.
#[derive(Debug)]
pub(crate) struct Castle {
    program: PathBuf,
    home: PathBuf,
    root: PathBuf,
    log: PathBuf,
    address: SocketAddr,
    can_mount: bool,
    life: Mutex<Life>,
}

/// One process.
#[derive(Debug)]
struct Life {
    child: Child,
    what: String,
    /// The first look under siege, the largest of all, and how many.
    early: Option<Figures>,
    most: Figures,
    looks: u32,
    /// Of all lives.
    history: String,
}

/// What a life has little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    Nothing,
    Descriptors,
}

impl Castle {
    pub(crate) fn build(field: &Field) -> io::Result<Self> {
        let (root, home) = (field.folder.join("root"), field.folder.join("server"));
        fs::create_dir_all(root.join("small"))?;
        fs::create_dir_all(root.join("up"))?;
        fs::create_dir_all(root.join("library"))?;
        let mut chance = Chance::new(7);
        for (name, bytes) in LIBRARY {
            fs::write(root.join(name), chance.bytes(bytes))?;
        }
        let port = std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
        let can_mount = can_mount(&root.join("small"));
        if !can_mount {
            println!("no full disk: that needs root");
        }
        let log = field.folder.join("server.log");
        let mut castle = Self {
            program: field.program.clone(),
            home,
            root,
            log,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            can_mount,
            life: Mutex::new(Life {
                child: Command::new("true").spawn()?,
                what: String::new(),
                early: None,
                most: Figures::default(),
                looks: 0,
                history: String::new(),
            }),
        };
        let child = castle.start(&field.clock, Want::Descriptors)?;
        let life = castle.life.get_mut().unwrap_or_else(PoisonError::into_inner);
        life.child.wait()?;
        (life.child, life.what) = (child, format!("first, wanting {:?}", Want::Descriptors));
        Ok(castle)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is served, as the server sees it: with the small disk, which others do not see.
    pub(crate) fn root(&self) -> PathBuf {
        Path::new("/proc")
            .join(self.life().child.id().to_string())
            .join("root")
            .join(self.root.strip_prefix("/").unwrap_or(&self.root))
    }

    /// Whether `small/` has little room.
    pub(crate) fn has_small_disk(&self) -> bool {
        self.can_mount
    }

    fn start(&self, clock: &Clock, want: Want) -> io::Result<Child> {
        let mount = format!("mount -t tmpfs -o size={SMALL_MIB}m none \"$2/small\" || exit 1; ");
        let script = format!(
            "{}{}exec \"$1\" serve --gateway --json --memory {MEMORY_MIB}M --listen \"$3\" --root \"$2\"",
            if self.can_mount { &mount } else { "" },
            if want == Want::Descriptors { "ulimit -n 160; " } else { "" },
        );
        let mut command = Command::new(if self.can_mount { "unshare" } else { "sh" });
        if self.can_mount {
            command.args(["-m", "sh"]);
        }
        command.args(["-c", &script, "sh"]).arg(&self.program).arg(&self.root);
        let log = File::options().create(true).append(true).open(&self.log)?;
        command.arg(self.address.port().to_string()).env("FULMAR_HOME", &self.home);
        clock.show(&mut command);
        let (mut child, line) = process::ready(command.stderr(log))?;
        if line["listening"].is_null() && line["address"].is_null() {
            let _ = child.kill();
            return Err(io::Error::other(format!("the server does not start: {line}")));
        }
        Ok(child)
    }

    /// Does something to the server, and nothing that makes it begin anew unless `may_kill`.
    pub(crate) fn suffer(&self, field: &Field, chance: &mut Chance, may_kill: bool) {
        self.look(field);
        match chance.below(5) {
            0 | 1 if may_kill => self.kill(field, chance),
            2 => {
                field.verdict.count("server stopped (SIGSTOP)");
                self.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(500 + chance.below(4500)));
                self.signal(Signal::CONT);
            }
            3 => {
                if let Some(by) = field.clock.jump(chance) {
                    let way = if by < 0 { "back" } else { "forward" };
                    field.verdict.count(format!("the wall clock jumped {way}"));
                }
            }
            _ => {}
        }
    }

    fn kill(&self, field: &Field, chance: &mut Chance) {
        let want = *chance.pick(&[Want::Nothing, Want::Descriptors]);
        field.verdict.count(format!("server killed (-9), started again wanting {want:?}"));
        let mut life = self.life();
        // Under siege still, so that it may hold more than at rest.
        if let Some(now) = Figures::of(life.child.id())
            && now.memory_kib > life.memory_max_kib()
        {
            field.verdict.complain(format!("a server ({}) has grown to {now}", life.what));
        }
        life.write_down();
        let _ = life.child.kill();
        let _ = life.child.wait();
        match self.start(&field.clock, want) {
            Ok(child) => {
                life.child = child;
                (life.what, life.early, life.looks) = (format!("wanting {want:?}"), None, 0);
                life.most = Figures::default();
            }
            Err(error) => field.verdict.complain(error.to_string()),
        }
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.life().child), signal);
    }

    /// Takes the figures, and sees whether the server is still there.
    pub(crate) fn look(&self, field: &Field) {
        let mut life = self.life();
        if let Ok(Some(status)) = life.child.try_wait() {
            field.verdict.complain(format!("the server has ended by itself: {status}"));
            if let Ok(child) = self.start(&field.clock, Want::Nothing) {
                life.child = child;
            }
            return;
        }
        if let Some(figures) = Figures::of(life.child.id()) {
            life.most = life.most.max(figures);
            let most_kib = memory_max_kib(MEMORY_MIB);
            if figures.memory_kib > most_kib {
                let what =
                    format!("a server ({}) holds {figures}, more than {} MiB", life.what, most_kib >> 10);
                field.verdict.complain(what);
            }
            life.early = life.early.or(Some(figures).filter(|_| life.looks > 0));
            life.looks += 1;
        }
    }

    /// At the end, at rest.
    pub(crate) fn judge(&self, field: &Field) {
        let mut life = self.life();
        let Some(now) = Figures::of(life.child.id()) else {
            return field.verdict.complain("the server is not there at the end");
        };
        let checks = [
            ("threads", now.threads, THREADS_MAX),
            ("descriptors", now.descriptors, DESCRIPTORS_MAX),
            ("KiB", now.memory_kib, life.memory_max_kib()),
        ];
        for (what, is, max) in checks.into_iter().filter(|(_, is, max)| is > max) {
            field.verdict.complain(format!("the server at rest holds {is} {what}, more than {max}"));
        }
        life.write_down();
        let _ = writeln!(life.history, "at rest: {now}");
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        for line in log.lines().filter(|line| line.contains("panicked") || line.contains("a mistake in")) {
            field.verdict.complain(format!("the server's log: {line}"));
        }
    }

    /// What each life has taken.
    pub(crate) fn figures(&self) -> String {
        self.life().history.clone()
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Life {
    /// What it may have grown to.
    fn memory_max_kib(&self) -> u64 {
        self.early.unwrap_or(self.most).memory_kib + GROWTH_MAX_KIB
    }

    fn write_down(&mut self) {
        if let Some(early) = self.early {
            let _ = writeln!(self.history, "life ({}): first {early}; most {}", self.what, self.most);
        }
    }
}

impl Drop for Castle {
    fn drop(&mut self) {
        let mut life = self.life();
        let _ = life.child.kill();
        let _ = life.child.wait();
    }
}

/// Whether this user may have a disk of its own in a namespace of its own.
fn can_mount(at: &Path) -> bool {
    let mut command = Command::new("unshare");
    command.args(["-m", "mount", "-t", "tmpfs", "none"]).arg(at).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
